"""The look of reports: one stylesheet for all, light and dark, wide and on a phone.

Tables become cards on a phone: `page.py` gives each cell its column's heading. Charts keep their
size there, and are scrolled. Not here: the contents of a page."""

from typing import Final

CSS: Final = """
:root { color-scheme: light dark; --ink: #2b2d42; --dim: #5f6673; --line: #e3e7ee; --page: #f6f7f9;
  --card: #fff; --code: #eceff4; --good: #0b7a75; --bad: #b45309; --failed: #b91c1c;
  --lazy: #0b7a75; --eager: #d1495b; --zero-copy: #6d7a91; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8ee; --dim: #a3abba; --line: #363c4a;
  --page: #14171d; --card: #1c2028; --code: #272d38; --good: #4fd1c5; --bad: #f6ad55;
  --failed: #fc8181; --lazy: #4fd1c5; --eager: #f687a0; --zero-copy: #a3b1c9; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
  font-variant-numeric: tabular-nums; }
main { max-width: 1120px; margin: 0 auto; padding: 48px 24px 72px; overflow-wrap: break-word; }
h1 { font-size: 32px; line-height: 1.2; letter-spacing: -0.02em; margin: 0 0 8px; }
h2 { font-size: 20px; letter-spacing: -0.01em; margin: 0; overflow-wrap: anywhere; }
h3 { font-size: 14px; margin: 28px 0 4px; }
.conclusion { font-size: 22px; line-height: 1.35; font-weight: 600; margin: 0 0 12px; }
.lead { font-size: 17px; color: var(--dim); margin: 0 0 12px; }
.made { font-size: 14px; color: var(--dim); margin: 0 0 6px; }
pre { margin: 0; padding: 12px 16px; background: var(--code); border-radius: 8px; font-size: 13px;
  white-space: pre-wrap; overflow-wrap: anywhere; }
code { background: var(--code); border-radius: 4px; padding: 1px 5px; font-size: 0.88em;
  overflow-wrap: anywhere; }
td code { white-space: nowrap; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 12px;
  padding: 28px 32px; margin-top: 28px; overflow-x: auto; }
.what { color: var(--dim); margin: 2px 0 0; }
.chart { overflow-x: auto; }
svg { display: block; width: 100%; height: auto; font-family: inherit; }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 0 32px; }
.tiles { display: grid; grid-template-columns: repeat(4, 1fr); gap: 0 24px; margin-top: 20px;
  border-top: 1px solid var(--line); border-bottom: 1px solid var(--line); padding: 16px 0; }
section > .tiles:first-child { margin-top: 0; border-top: none; padding-top: 0; }
.tiles.three { grid-template-columns: repeat(3, 1fr); }
.tile .label { font-size: 13px; line-height: 1.35; color: var(--dim); }
.tile .figure { font-size: 28px; font-weight: 650; letter-spacing: -0.02em; }
.tile .figure.good { color: var(--good); }
.tile .figure.bad { color: var(--bad); }
.tile .beside { font-size: 14px; color: var(--dim); }
.tile b { font-weight: 600; white-space: nowrap; }
.good { color: var(--good); font-weight: 600; }
.bad { color: var(--bad); font-weight: 600; }
.same { color: var(--dim); }
p.conclusion.same { color: var(--ink); }
table { width: 100%; border-collapse: collapse; margin-top: 28px; font-size: 14px; }
th, td { padding: 5px 0 5px 20px; text-align: right; white-space: nowrap; vertical-align: top; }
th:first-child, td:first-child { padding-left: 0; text-align: left; white-space: normal;
  overflow-wrap: anywhere; min-width: 150px; }
td.wrap, th.wrap { white-space: normal; text-align: left; overflow-wrap: break-word;
  min-width: 100px; max-width: 300px; }
td.advice { min-width: 240px; }
thead th { border-bottom: 1px solid var(--ink); }
th i { display: inline-block; width: 10px; height: 10px; border-radius: 3px; margin-right: 7px; }
tbody tr + tr td { border-top: 1px solid var(--line); }
.group td { padding-top: 16px; color: var(--dim); font-size: 12px; text-transform: uppercase;
  letter-spacing: 0.06em; }
.costs { margin-top: 4px; }
.verdict { margin: 12px 0 0; }
.noise { margin: 4px 0 0; font-size: 14px; }
.held { color: var(--good); margin: 20px 0 0; }
.failed { color: var(--failed); font-weight: 600; margin: 20px 0 0; }
.bar { display: flex; height: 12px; border-radius: 3px; overflow: hidden; background: var(--line);
  min-width: 140px; margin-top: 5px; }
.bar span { display: block; height: 100%; }
small { color: var(--dim); }
.legend { display: flex; flex-wrap: wrap; gap: 4px 20px; margin: 16px 0 0; font-size: 13px;
  color: var(--dim); }
.legend i { display: inline-block; width: 10px; height: 10px; border-radius: 3px;
  margin-right: 6px; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 4px 24px; margin: 12px 0; }
dt { font-weight: 600; }
dd { margin: 0; overflow-wrap: anywhere; }
ul { padding-left: 20px; }
li { margin: 6px 0; overflow-wrap: anywhere; }
.facts { font-size: 14px; }
@media (max-width: 760px) {
  main { padding: 24px 12px 48px; }
  h1 { font-size: 26px; }
  .conclusion { font-size: 19px; }
  .pair { grid-template-columns: minmax(0, 1fr); }
  .tiles, .tiles.three { grid-template-columns: 1fr 1fr; gap: 16px 24px; }
  .tile .figure { font-size: 23px; }
  section { padding: 20px 16px; }
  dl { grid-template-columns: minmax(0, 1fr); gap: 0; }
  dd { margin-bottom: 8px; }
  thead { display: none; }
  table, tbody, tr, td { display: block; }
  tr { border: 1px solid var(--line); border-radius: 8px; padding: 8px 12px; margin-top: 10px; }
  tr.group { border: none; padding: 0; margin-top: 18px; }
  tbody tr + tr td { border-top: none; }
  td, td:first-child, td.wrap { display: flex; justify-content: space-between; gap: 16px;
    padding: 3px 0; text-align: right; white-space: normal; min-width: 0; max-width: none; }
  td:first-child { font-weight: 600; justify-content: flex-start; text-align: left; }
  td:empty { display: none; }
  td[data-label]::before { content: attr(data-label); color: var(--dim); font-weight: 400;
    text-align: left; flex: none; max-width: 45%; }
  td.wrap, td.advice { flex-direction: column; gap: 0; text-align: left; }
  td code { white-space: normal; }
  .bar { flex: 1; }
}
@media print { body { background: #fff; } section { break-inside: avoid; border: none;
  padding: 0; } }
"""
