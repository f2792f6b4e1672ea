"""How do reports look on a wide screen, on a phone, and in dark mode? Makes pictures with Chromium,
and checks that a page fits the width of a phone.

python -m bench.screenshots report.html --to pictures/
"""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")
HEIGHT: Final = 2400  # pixels
SECONDS: Final = 60.0
LOOKS: Final = {
    "wide": (1280, ()),
    "dark": (1280, ("--blink-settings=preferredColorScheme=0",)),
    "phone": (400, ()),
}
# These keep Chromium from using the network.
OFFLINE: Final = (
    *("--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
PHONE_WIDTH: Final = 400
# A window of Chromium is at least 500 pixels wide, so a phone is a frame in one.
PHONE: Final = (
    '<body style="margin:0"><iframe src="{}" '
    f'style="border:0;width:{PHONE_WIDTH}px;height:{{}}px"></iframe>'
)
MEASURED: Final = """<script>
document.querySelector("iframe").onload = (event) => {
    const page = event.target.contentDocument.documentElement;
    const parts = [page, ...page.querySelectorAll("section")];
    const more = parts.map((part) => part.scrollWidth - part.clientWidth);
    document.body.id = "more-" + Math.max(...more);
}
</script>"""


def browser() -> str | None:
    """The program, if one is installed."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def pictures(page: Path, into: Path, height: int = HEIGHT) -> Iterator[Path]:
    """A picture of each look. RuntimeError: the browser made none."""
    for look, (width, options) in LOOKS.items():
        picture = into / f"{page.stem}-{look}.png"
        if look == "phone":
            with _on_phone(page, height) as frame:
                taken(frame, picture, 500, height, options)
        else:
            taken(page, picture, width, height, options)
        yield picture


def taken(
    page: Path, picture: Path, width: int, height: int, options: tuple[str, ...] = ()
) -> None:
    """Takes one picture of a page, in pixels. RuntimeError: the browser made none."""
    _browse(page, *options, f"--window-size={width},{height}", f"--screenshot={picture.resolve()}")
    if not picture.exists():
        raise RuntimeError(f"{browser()} has made no picture of {page}")


def phone_overflow(page: Path) -> int:
    """The pixels by which a page, or a section of it, is wider than a phone. 0: nobody has to
    scroll sideways, except within a chart. RuntimeError: the browser did not show it."""
    with _on_phone(page, HEIGHT, MEASURED) as frame:
        found = re.search(r'id="more-(\d+)"', _browse(frame, "--dump-dom"))
    if found is None:
        raise RuntimeError(f"{browser()} has not shown {page}")
    return int(found[1])


@contextmanager
def _on_phone(page: Path, height: int, script: str = "") -> Iterator[Path]:
    """A page that shows another one as wide as a phone."""
    with tempfile.TemporaryDirectory(prefix="phone-") as temporary:
        frame = Path(temporary) / "phone.html"
        frame.write_text(PHONE.format(page.resolve().as_uri(), height) + script)
        yield frame


def _browse(page: Path, *options: str) -> str:
    """The browser's output. RuntimeError: there is no browser."""
    program = browser()
    if program is None:
        raise RuntimeError(f"none of {', '.join(BROWSERS)} is installed")
    with tempfile.TemporaryDirectory(prefix="browser-") as profile:
        command = (
            *(program, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
            *(f"--user-data-dir={profile}", "--allow-file-access-from-files", *OFFLINE, *options),
            page.resolve().as_uri(),
        )
        ended = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=SECONDS
        )
    return ended.stdout


@click.command()
@click.argument("pages", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--to", "into", type=click.Path(path_type=Path), default=Path())
@click.option("--height", default=HEIGHT, show_default=True)
def main(pages: tuple[Path, ...], into: Path, height: int) -> None:
    """Pictures of PAGES."""
    if browser() is None:
        print(f"none of {', '.join(BROWSERS)} is installed: no pictures", file=sys.stderr)
        return
    into.mkdir(parents=True, exist_ok=True)
    for page in pages:
        for picture in pictures(page, into, height):
            print(picture)


if __name__ == "__main__":
    main()
