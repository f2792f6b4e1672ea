"""Fetches applications from their registries into `build/applications`, once.

apt, Maven, npm and go do it, with what the machine has configured. Debian's packages are unpacked
there and not installed, so that no service starts and nobody has to be root.

Not here: clients as libraries (tests/clients/install.py)."""

import platform
import shutil
import sys
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from tests.fetching import InstallError, once, run
from tests.kafka_server import COMPILER, MAVEN_OPTIONS

HOME: Final = Path(__file__).parents[3] / "build" / "applications"
PROGRAMS: Final = Path(__file__).parent / "programs"
_MULTIARCH: Final = f"{platform.machine()}-linux-gnu"
LIBRARIES: Final = f"usr/lib/{_MULTIARCH}"


# Bindings of slf4j that would stand in the way of the one that is wanted.
LOGGING: Final = ("org.slf4j:slf4j-log4j12", "ch.qos.logback:logback-classic")

# For classes that libraries from before Java 9 read.
OLD_JAVA: Final = ("--release", "8", "-nowarn", "-Xlint:none")
# Packages that Java programs from before Java 9 access.
OPENED: Final = (
    *(
        f"--add-opens=java.base/{package}=ALL-UNNAMED"
        for package in (
            *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net"),
            *("java.nio", "java.util", "java.util.concurrent", "java.util.concurrent.atomic"),
            *("sun.nio.ch", "sun.nio.cs", "sun.security.action", "jdk.internal.ref"),
        )
    ),
)


def debian(*packages: str) -> Path:
    """The root that these packages are unpacked in: an application's own, and what a small system
    does not have."""
    with once(HOME / "debian" / _digest(packages)) as new:
        if new:
            _need("apt-get", "dpkg")
            run("apt-get", "download", "-qq", *packages, cwd=new)
            for package in sorted(new.glob("*.deb")):
                run("dpkg", "-x", str(package), str(new))
                package.unlink()
    return HOME / "debian" / _digest(packages)


def of_debian(root: Path, *first: Path) -> dict[str, str]:
    """The environment in which what is unpacked there finds its libraries; in `first` before."""
    paths = (*first, root / LIBRARIES, root / "lib" / _MULTIARCH)
    return {"LD_LIBRARY_PATH": ":".join(map(str, paths))}


def go(package: str, version: str, *options: str) -> Path:
    """A folder that has the program."""
    folder = HOME / "go" / f"{Path(package).name}-{version}"
    with once(folder) as new:
        if new:
            _need("go")
            at = f"{package}@{version}"
            run("go", "install", "-p", "1", *options, at, environment={"GOBIN": str(new)})
    return folder


def go_program(program: str, module: str, version: str) -> Path:
    """A folder that has `program`: one of ours, built with a version of a module."""
    source = PROGRAMS / "go" / f"{program}.go"
    text = source.read_text()
    folder = HOME / "go" / f"{program}-{version}-{_digest((text,))}"
    with once(folder) as new:
        if new:
            _need("go")
            (new / "go.mod").write_text("module program\n\ngo 1.21\n")
            (new / "main.go").write_text(text)
            run("go", "get", f"{module}@{version}", cwd=new)
            run("go", "build", "-p", "1", "-o", "program", ".", cwd=new)
    return folder


def npm(
    package: str, version: str, *options: str, environment: Mapping[str, str] | None = None
) -> Path:
    """A folder that has `node_modules`. `environment` is what a compiler wants to know."""
    folder = HOME / "npm" / f"{package}-{version}"
    with once(folder) as new:
        if new:
            _need("npm", "node")
            quiet = ("--no-save", "--no-package-lock", "--prefix", str(new))
            wanted = (*quiet, *options, f"{package}@{version}")
            run("npm", "install", *wanted, environment=environment)
    return folder


def maven(
    name: str,
    dependencies: Sequence[str],
    program: str = "",
    exclusions: Sequence[str] = (),
) -> Path:
    """A folder of jars: those of `group:artifact:version`, what they ask for but for
    `group:artifact` excluded, and, where one is named, a compiled program of ours."""
    source = PROGRAMS / "java" / f"{program}.java"
    text = source.read_text() if program else ""
    wanted = _digest((*dependencies, *exclusions))
    jars = HOME / "maven" / f"{name}-{wanted}"
    with once(jars) as new:
        if new:
            _need("mvn", "java")
            (new / "pom.xml").write_text(_pom(dependencies, exclusions))
            target = f"-DoutputDirectory={new}"
            copied = ("-f", str(new / "pom.xml"), "dependency:copy-dependencies", target)
            run("mvn", "-q", "-B", *copied, environment=MAVEN_OPTIONS)
    if not program:
        return jars
    folder = HOME / "maven" / f"{name}-{wanted}-{_digest((text,))}"
    with once(folder) as new:
        if new:
            for jar in jars.glob("*.jar"):
                (new / jar.name).symlink_to(jar)
            path = ("-cp", f"{jars}/*", "-d", str(new))
            run(*COMPILER, *OLD_JAVA, *path, str(source))
    return folder


def _pom(dependencies: Sequence[str], exclusions: Sequence[str]) -> str:
    def element(name: str, inside: str) -> str:
        return f"<{name}>{inside}</{name}>"

    def coordinates(text: str) -> str:
        names = ("groupId", "artifactId", "version")
        return "".join(map(element, names, text.split(":")))  # exclusions have no version

    without = "".join(element("exclusion", coordinates(text)) for text in exclusions)
    needed = "".join(
        element("dependency", coordinates(text) + element("exclusions", without))
        for text in dependencies
    )
    own = coordinates("tests:applications:1") + element("packaging", "pom")
    model = element("modelVersion", "4.0.0")
    return element("project", model + own + element("dependencies", needed))


def _digest(texts: Sequence[str]) -> str:
    return sha256("\n".join(texts).encode()).hexdigest()[:12]


def _need(*tools: str) -> None:
    absent = [tool for tool in tools if shutil.which(tool) is None]
    if absent:
        raise InstallError(f"not here: {', '.join(absent)}")


def librdkafka(version: str) -> Path:
    """A folder with a `librdkafka.so.1` of that version, as the wheel of confluent-kafka has it."""
    folder = HOME / "librdkafka" / version
    with once(folder) as new:
        if new:
            wheel = f"confluent-kafka=={version}"
            place = ("--platform", "manylinux2010_x86_64", "--python-version", "3.8")
            only = ("--only-binary", ":all:", "--no-deps", *place, "--target", str(new))
            run(sys.executable, "-m", "pip", "install", "-q", *only, wheel)
            [library] = (new / "confluent_kafka.libs").glob("librdkafka-*.so.1")
            (library.parent / "librdkafka.so.1").symlink_to(library.name)
    return folder / "confluent_kafka.libs"
