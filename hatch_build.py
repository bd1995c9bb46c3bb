"""Compiles the native core into the wheel. Without a compiler the wheel has none, and the core is built at first use.

An editable install has none either: its sources change, and what is built at first use is of the sources as they are.
"""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "kvproof/gpu_backend"


class NativeCore(BuildHookInterface[Any]):
    """The hook that hatchling calls for each wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the core to the files of a wheel, whose tag then names interpreter and platform."""
        if version == "editable":
            return
        build = self._module()
        self._folder = tempfile.TemporaryDirectory()
        core = Path(self._folder.name, build.shipped_file().name)
        try:
            build.compile_core(core)
        except build.NativeCoreUnavailable as why:
            self.app.display_warning(f"the wheel is built without the native core, which is built at first use: {why}")
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["force_include"][str(core)] = f"{PACKAGE}/{core.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """The core is in the wheel, and nowhere else."""
        if version != "editable":
            self._folder.cleanup()

    def _module(self) -> ModuleType:
        path = Path(self.root, "gpu_backend", PACKAGE, "build.py")
        spec = importlib.util.spec_from_file_location("kvproof_build", path)
        assert spec is not None and spec.loader is not None  # noqa: PT018
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
