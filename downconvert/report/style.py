"""How the report looks: light, with the system's own letters, and no larger than what it says.

Not here: what is on the page (report.py)."""

from typing import Final

CSS: Final = """
:root { --ink: #2b2d42; --dim: #6b7280; --line: #e3e7ee; --good: #0b7a75; --bad: #b45309; }
* { box-sizing: border-box; }
body { margin: 0; background: #f6f7f9; color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
  font-variant-numeric: tabular-nums; }
main { max-width: 1080px; margin: 0 auto; padding: 48px 24px 72px; }
h1 { font-size: 32px; line-height: 1.2; letter-spacing: -0.02em; margin: 0 0 8px; }
h2 { font-size: 20px; letter-spacing: -0.01em; margin: 0; overflow-wrap: anywhere; }
h3 { font-size: 14px; margin: 28px 0 4px; }
.lead { font-size: 18px; color: var(--dim); margin: 0 0 16px; }
pre { margin: 0; padding: 12px 16px; background: #eceff4; border-radius: 8px; font-size: 13px;
  white-space: pre-wrap; overflow-wrap: anywhere; }
section { background: #fff; border: 1px solid var(--line); border-radius: 12px;
  padding: 28px 32px; margin-top: 28px; }
.what { color: var(--dim); margin: 2px 0 0; }
svg { display: block; width: 100%; height: auto; font-family: inherit; }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 0 32px; }
.tiles { display: grid; grid-template-columns: repeat(4, 1fr); gap: 0 24px; margin-top: 20px;
  border-top: 1px solid var(--line); border-bottom: 1px solid var(--line); padding: 16px 0; }
.tile .label { font-size: 13px; line-height: 1.35; color: var(--dim); min-height: 36px; }
.tile .figure { font-size: 28px; font-weight: 650; letter-spacing: -0.02em; color: var(--good); }
.tile .beside { font-size: 14px; color: var(--dim); }
.tile b { font-weight: 600; white-space: nowrap; }
.good { color: var(--good); font-weight: 600; }
.bad { color: var(--bad); font-weight: 600; }
.same { color: var(--dim); }
table { width: 100%; border-collapse: collapse; margin-top: 28px; font-size: 14px; }
th, td { padding: 5px 0 5px 24px; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { padding-left: 0; text-align: left; width: 30%; }
thead th { border-bottom: 1px solid var(--ink); }
th i { display: inline-block; width: 10px; height: 10px; border-radius: 3px; margin-right: 7px; }
tbody tr + tr td { border-top: 1px solid var(--line); }
.group td { padding-top: 16px; color: var(--dim); font-size: 12px; text-transform: uppercase;
  letter-spacing: 0.06em; }
.held { color: var(--good); margin: 20px 0 0; }
.failed { color: #b91c1c; font-weight: 600; margin: 20px 0 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 4px 24px; margin: 12px 0; }
dt { font-weight: 600; }
dd { margin: 0; }
ul { padding-left: 20px; }
li { margin: 6px 0; }
.facts { font-size: 14px; }
@media (max-width: 760px) {
  .pair { grid-template-columns: 1fr; }
  .tiles { grid-template-columns: 1fr 1fr; gap: 16px 24px; }
  section { padding: 20px; overflow-x: auto; }
} @media print { body { background: #fff; } section { break-inside: avoid; border: none; padding:
0; } } """
