"""How do reports look: wide, on a phone, in dark mode? Makes pictures with Chromium.

python -m bench.screenshots report.html --to pictures/
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
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
# Chromium asks nothing of the network.
OFFLINE: Final = (
    *("--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
# A window of Chromium is at least 500 pixels wide, so a phone is a frame in one.
PHONE: Final = '<body style="margin:0"><iframe src="{}" style="border:0;width:400px;height:{}px">'


def browser() -> str | None:
    """The program, if one is installed."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def pictures(page: Path, into: Path, height: int = HEIGHT) -> Iterator[Path]:
    """A picture of each look. RuntimeError: the browser made none."""
    for look, (width, options) in LOOKS.items():
        picture = into / f"{page.stem}-{look}.png"
        if look == "phone":
            with tempfile.TemporaryDirectory(prefix="phone-") as temporary:
                frame = Path(temporary) / "phone.html"
                frame.write_text(PHONE.format(page.resolve().as_uri(), height))
                taken(frame, picture, 500, height, options)
        else:
            taken(page, picture, width, height, options)
        yield picture


def taken(
    page: Path, picture: Path, width: int, height: int, options: tuple[str, ...] = ()
) -> None:
    """Takes one picture of a page, in pixels. RuntimeError: the browser made none."""
    program = browser()
    if program is None:
        raise RuntimeError(f"none of {', '.join(BROWSERS)} is installed")
    with tempfile.TemporaryDirectory(prefix="browser-") as profile:
        command = (
            *(program, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
            *(f"--user-data-dir={profile}", "--allow-file-access-from-files", *OFFLINE, *options),
            *(f"--window-size={width},{height}", f"--screenshot={picture.resolve()}"),
            page.resolve().as_uri(),
        )
        subprocess.run(command, capture_output=True, check=False, timeout=SECONDS)
    if not picture.exists():
        raise RuntimeError(f"{program} has made no picture of {page}")


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
