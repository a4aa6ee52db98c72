"""What the packages we stand on would report of their users, switched off.

`protoreplay/__init__.py` calls `keep_silent`, so it holds before any module of ours can import one of them.
"""

import os
import sys

SILENT = {
    "ORT_DISABLE_TELEMETRY": "1",  # onnxruntime from 1.31 on sends events, and keeps a device id in the user's cache
    "RAY_USAGE_STATS_ENABLED": "0",
    "FASTAPI_OTEL_AUTO_CONFIGURE": "false",
    "HF_HUB_DISABLE_TELEMETRY": "1",  # of timm's downloads
    "DO_NOT_TRACK": "1",
}
"""Environment variables with the values that say no; whatever the user's environment says, ours is a promise."""


def keep_silent() -> None:
    """Nothing is reported by this process or by those it starts."""
    os.environ.update(SILENT)
    # Whoever imported onnxruntime before us has its events on: from here on they are off.
    disable = getattr(sys.modules.get("onnxruntime"), "disable_telemetry_events", None)
    if disable is not None:
        disable()
