#!/usr/bin/env python3
"""Make an environment with vLLM for its block pool: `python3 tools/vllm_environment.py [RELEASE]`, or `make vllm`.

It lies apart from .venv, since what vLLM needs is not what kvproof needs. The standard library has to do. A torch that
was chosen for .venv (make setup TORCH=...) is chosen here, too.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import setup
from setup import GB, MB, ROOT, Lack, SetupFailed, size

RELEASE = "0.33.0"
"""The release that is certified; its environment is found without being named."""

OLDEST = (0, 24)
"""Before that BlockPool has no partial blocks, and the adapter's calls have another form."""

REQUIREMENTS = ROOT / "tools/vllm-requirements.txt"
STAMP = ".kvproof-ready"

DOWNLOAD = 610 * MB
"""Measured with vLLM 0.33.0 and the CPU build of torch: 336 MB and 190 MB of it."""
DISK_NEED = 4 * GB
"""The environment takes 2.3 GB; the rest is pip's cache and the files that it unpacks on the way."""

CHECK = """
import msgspec, rich, typer, xxhash
import vllm.lora.request, vllm.multimodal.inputs, vllm.v1.core.block_pool, vllm.v1.request
"""
"""What the adapter needs, and the server that it runs in."""

REMEDY = "check the network, the free disk space and `pip config list`, or choose another torch with TORCH=; try again"


def environment(release: str) -> Path:
    """Where the environment of a release lies."""
    return ROOT / "build" / ("vllm" if release == RELEASE else f"vllm-{release}") / ".venv"


def digest(release: str, torch: str, venv: Path) -> str:
    """Identify everything that decides what lies in the environment, its place included: scripts hold its path."""
    inputs = [
        release,
        torch,
        setup.torch_identity(torch),
        REQUIREMENTS.read_text(encoding="utf-8"),
        setup.CONSTRAINTS.read_text(encoding="utf-8"),
        platform.python_version(),
        sys.base_prefix,
        str(venv),
    ]
    return hashlib.sha256(json.dumps(inputs).encode()).hexdigest()


def is_ready(venv: Path, wanted: str) -> bool:
    """Whether an environment made from the same is there, and still has its interpreter."""
    stamp = venv / STAMP
    return stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted and (venv / "bin/python").exists()


def lacks() -> list[Lack]:
    """What the machine must have."""
    found = setup.lacks_venv()
    if platform.system() != "Linux":
        found.append(Lack(f"Linux, which vLLM's wheels are for (this is {platform.system()})", ""))
    for place, need in {ROOT: DISK_NEED, Path(tempfile.gettempdir()): DOWNLOAD}.items():
        free = shutil.disk_usage(place).free
        if free < need:
            found.append(Lack(f"disk space under {place} ({size(need)} needed, {size(free)} free)", ""))
    return found


def check_release(release: str) -> None:
    """Refuse what is no release, or one that the adapter cannot drive."""
    numbers = release.split(".")
    if len(numbers) != 3 or not all(number.isdigit() for number in numbers):
        raise SetupFailed(f"vllm: {release!r} is no release; name one as in make vllm VLLM={RELEASE}")
    if (int(numbers[0]), int(numbers[1])) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise SetupFailed(f"vllm: {release} has no partial blocks, which came with {oldest}.0; name a later release")


def torch_choice() -> str:
    """The torch that TORCH names or .venv was made with; '' for the pinned one."""
    return setup.torch_choice(os.environ.get("TORCH", "").strip(), setup.read_stamp(setup.VENV))


def pip_install(venv: Path, what: str, *arguments: str) -> None:
    """Run pip with the user's own configuration; show what it says only when it fails."""
    pip = [str(venv / "bin/python"), "-I", "-m", "pip", "--quiet", "--no-input", "--disable-pip-version-check"]
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        if setup.run_with_heartbeat([*pip, "install", *arguments], output.fileno()):
            output.seek(0)
            raise SetupFailed(f"{output.read().rstrip()}\nvllm: pip could not install {what} (see above); {REMEDY}")


def make_environment(venv: Path, release: str, torch: str) -> None:
    """Make the environment. Without a stamp it counts for nothing until the last step is done."""
    import venv as environments  # some systems ship Python without it; lacks() has told them by now

    environments.EnvBuilder(with_pip=True, symlinks=True, clear=True, prompt=f"vllm-{release}").create(venv)
    title(f"[1/4] {torch or 'torch'} (vLLM asks for a newer one; its block pool does not need it)")
    pins = [] if torch else ["--constraint", str(setup.CONSTRAINTS)]
    pip_install(venv, "torch", *pins, torch or "torch")
    title(f"[2/4] vllm {release}")
    pip_install(venv, f"vllm {release}", "--no-deps", f"vllm=={release}")
    title("[3/4] what its block pool imports")
    pip_install(venv, str(REQUIREMENTS), "--no-deps", "--requirement", str(REQUIREMENTS))
    title("[4/4] does it import")
    if why := why_not(venv):
        raise SetupFailed(f"vllm: the block pool of vLLM {release} does not import here: {why}; {REMEDY}")


def why_not(venv: Path) -> str:
    """Why the block pool cannot be imported, in Python's last words; empty if it can."""
    command = [str(venv / "bin/python"), "-c", CHECK]
    tried = subprocess.run(command, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
    return (tried.stderr.strip().splitlines() or ["it says nothing"])[-1] if tried.returncode else ""


def title(text: str) -> None:
    """Begin a line that a step's dots go on."""
    print(f"\nvllm: {text} ", end="", flush=True)


def build(release: str) -> None:
    """Bring the environment up to date; do nothing if it is."""
    check_release(release)
    venv, torch = environment(release), torch_choice()
    wanted = digest(release, torch, venv)
    shown = venv.relative_to(ROOT)
    if is_ready(venv, wanted):
        print(f"vllm: {shown} is ready")
        return
    if missing := lacks():
        raise SetupFailed("vllm: " + setup.missing_line(missing))
    more = f"with {torch}" if torch else "where pip is not served the CPU build of torch, 2.5 GB and 4 GB more"
    print(f"vllm: downloads about {size(DOWNLOAD)} for vLLM {release}, and {shown} takes 2.3 GB; {more}", end="")
    started = time.monotonic()
    setup.remove(venv)
    venv.parent.mkdir(parents=True, exist_ok=True)
    try:
        make_environment(venv, release, torch)
    finally:
        print(flush=True)
    (venv / STAMP).write_text(wanted, encoding="utf-8")
    print(f"vllm: {shown} is ready after {time.monotonic() - started:.0f} s")


def main(arguments: list[str]) -> int:
    """Build what is asked for; return the exit status."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # end as on Ctrl-C, and pip with us
    try:
        with setup.one_at_a_time():
            build(arguments[0] if arguments else RELEASE)
    except SetupFailed as failure:
        print(failure, file=sys.stderr)
        return 1
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"vllm: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("vllm: interrupted; run it again to start over", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
