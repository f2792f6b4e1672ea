"""The image of deploy/Containerfile, built by buildah over a root file system of Debian's packages
where no registry of images can be reached.

The root file system is made once, into build/. The image has the wheel that the environment's WHEEL
names, of `make dist`; without it, one is built of this project as it stands here."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
BASE: Final = ROOT / "build" / "deploy" / "debian.tar"
PROGRAMS: Final = ("buildah", "mmdebstrap")
REQUIRED: Final = bool(os.environ.get("REQUIRE_BUILDAH"))  # then it is an error to have none
WHEEL: Final = os.environ.get("WHEEL", "")
BUILD_SECONDS: Final = 1500
END_SECONDS: Final = 60
CERTIFICATES: Final = Path("/etc/ssl/certs/ca-certificates.crt")  # also those of this network
SOURCES: Final = ("records", "downconvert", "simulator", "native", "deploy")
FILES: Final = ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE")


def missing() -> str:
    """Why no image can be built here; "" where one can."""
    if os.geteuid() != 0:
        return "images are built as root here"
    absent = [program for program in PROGRAMS if shutil.which(program) is None]
    return f"apt install {' '.join(absent)}" if absent else ""


def base() -> Path:
    """Debian of this machine's release, with Python."""
    if not BASE.exists():
        BASE.parent.mkdir(parents=True, exist_ok=True)
        release = dict(
            line.split("=", 1) for line in Path("/etc/os-release").read_text().split("\n") if line
        )["VERSION_CODENAME"]
        partial = BASE.with_name(f".{os.getpid()}.tar")
        packages = "--include=python3,python3-venv,ca-certificates"
        _run("mmdebstrap", "--variant=minbase", packages, release, str(partial))
        partial.replace(BASE)
    return BASE


def put_wheel(place: Path) -> None:
    """Into `place`/dist: this project's wheel, with the kernel compiled."""
    if WHEEL:
        (place / "dist").mkdir()
        shutil.copy(ROOT / WHEEL, place / "dist")
        return
    source = place / "source"
    source.mkdir()
    for name in SOURCES:
        shutil.copytree(
            ROOT / name,
            source / name,
            ignore=shutil.ignore_patterns("target", "*.so", "__pycache__"),
        )
    for name in FILES:
        shutil.copy(ROOT / name, source)
    target = {"CARGO_TARGET_DIR": str(ROOT / "native" / "target")}
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps")
    _run(*pip, "--wheel-dir", str(place / "dist"), str(source), **target)


@dataclass(frozen=True)
class Image:
    """A built image, in a storage of its own."""

    storage: Path

    @classmethod
    def build(cls, place: Path) -> "Image":
        """As deploy/Containerfile says; `place` is an empty directory."""
        image = cls(place / "storage")
        put_wheel(place)
        container = image.buildah("from", "scratch")
        image.buildah("add", "--quiet", container, str(base()), "/")
        image.buildah("commit", "--quiet", container, "localhost/debian")
        image.buildah("rm", container)
        image.buildah(
            *("build", "--isolation", "chroot", "--build-arg", "BASE=localhost/debian"),
            *("--volume", f"{CERTIFICATES}:{CERTIFICATES}:ro"),
            *("--file", str(ROOT / "deploy" / "Containerfile"), "--tag", "localhost/downconvert"),
            str(place),
        )
        return image

    def buildah(self, *arguments: str) -> str:
        """Its output, without the end of the line."""
        return _run(*self._command(), *arguments).strip()

    def settings(self) -> dict[str, Any]:
        """The image's settings: user, command, ports."""
        found = json.loads(self.buildah("inspect", "--type", "image", "localhost/downconvert"))
        settings: dict[str, Any] = found["OCIv1"]["config"]
        return settings

    @contextmanager
    def running(self, *arguments: str, volume: Path | None = None) -> Iterator["Process"]:
        """The image's command with these arguments, as the image's user, on this machine's network.
        `volume` is its /logs, to be read."""
        container = self.buildah("from", "--pull-never", "localhost/downconvert")
        mounted = () if volume is None else ("--volume", f"{volume}:/logs:ro")
        entrypoint = self.settings()["Entrypoint"]
        process = subprocess.Popen(
            [
                *(*self._command(), "run", "--isolation", "chroot", *mounted, container, "--"),
                *(*entrypoint, *arguments),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        running = Process(process)
        try:
            yield running
        finally:
            running.end()
            self.buildah("rm", container)

    def _command(self) -> tuple[str, ...]:
        run = self.storage.with_name("run")
        return (
            "buildah",
            "--storage-driver",
            "vfs",
            "--root",
            str(self.storage),
            "--runroot",
            str(run),
        )


@dataclass(frozen=True)
class Process:
    """A command in a container."""

    process: "subprocess.Popen[str]"

    def ready(self) -> dict[str, Any]:
        """Its ready line. A gateway writes one line before that: its cluster has not answered yet.
        AssertionError with its errors where it ended before that."""
        assert self.process.stdout is not None
        ready: dict[str, Any] = {"ready": False}
        while not ready.get("ready", True):
            line = self.process.stdout.readline()
            assert line, self.process.communicate()[1]
            ready = json.loads(line)
        return ready

    def end(self) -> int | None:
        """Sends SIGTERM, as container runtimes do. Returns the exit code, or None if the container
        had to be killed."""
        inner = self._descendants(self.process.pid)
        for pid in inner[-1:]:
            os.kill(pid, signal.SIGTERM)
        try:
            self.process.communicate(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            for pid in reversed([self.process.pid, *inner]):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.communicate()
            return None
        return self.process.returncode

    @classmethod
    def _descendants(cls, pid: int) -> list[int]:
        """Parents before their children: buildah's own processes, and last the command."""
        found: list[int] = []
        for file in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in map(int, file.read_text().split()):
                found += [child, *cls._descendants(child)]
        return found


def _run(*command: str, **environment: str) -> str:
    ran = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        env=os.environ | environment,
        check=False,
    )
    assert ran.returncode == 0, f"{' '.join(command)}\n{ran.stdout[-4000:]}{ran.stderr[-4000:]}"
    return ran.stdout
