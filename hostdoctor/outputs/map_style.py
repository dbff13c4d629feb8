"""Colours of the map and the charts: variables for a light and a dark page, chosen to differ for colour-blind eyes."""

from hostdoctor.outputs.svg import FONT

_LIGHT = {
    "bg": "#ffffff",
    "ink": "#1b1f24",
    "muted": "#4b535d",
    "wire": "#57606a",
    "node": "#f4f6f8",
    "node-edge": "#6e7781",
    "root": "#ffffff",
    "root-edge": "#9aa4af",
    "switch": "#e9edf2",
    "gpu": "#d8e8fb",
    "gpu-edge": "#0b5cad",
    "nic": "#fdebd0",
    "nic-edge": "#96590a",
    "nvme": "#f0e0f2",
    "nvme-edge": "#7a3b86",
    "nvlink": "#00705a",
    "critical": "#b3261e",
    "warning": "#8a4b00",
    "near": "#0b5cad",
    "far": "#b34700",
}
_DARK = {
    "bg": "#15191e",
    "ink": "#e8ebee",
    "muted": "#b3bcc6",
    "wire": "#9aa4af",
    "node": "#1c2229",
    "node-edge": "#7d8792",
    "root": "#232a32",
    "root-edge": "#5d6874",
    "switch": "#2e3741",
    "gpu": "#17395c",
    "gpu-edge": "#6db3f2",
    "nic": "#463010",
    "nic-edge": "#f0b35a",
    "nvme": "#432548",
    "nvme-edge": "#d79be2",
    "nvlink": "#3fd0ac",
    "critical": "#ff8a80",
    "warning": "#f5b95f",
    "near": "#6db3f2",
    "far": "#ff9d5c",
}


def _variables(colours: dict[str, str]) -> str:
    return "".join(f"--hd-{name}:{value};" for name, value in colours.items())


PALETTE = (
    f":root{{{_variables(_LIGHT)}}}"
    f"@media (prefers-color-scheme:dark){{:root{{{_variables(_DARK)}}}}}"
    f"@media print{{:root{{{_variables(_LIGHT)}}}}}"
)

MAP = f"""
.hd-map{{font-family:{FONT};background:var(--hd-bg)}}
.hd-map text{{fill:var(--hd-ink);white-space:pre}}
.hd-map .strong{{font-weight:700}}
.hd-map .muted{{fill:var(--hd-muted)}}
.hd-map .sheet{{fill:var(--hd-bg)}}
.hd-map .node{{fill:var(--hd-node);stroke:var(--hd-node-edge)}}
.hd-map .root{{fill:var(--hd-root);stroke:var(--hd-root-edge)}}
.hd-map .switch{{fill:var(--hd-switch);stroke:var(--hd-root-edge)}}
.hd-map .unknown{{stroke-dasharray:6 4}}
.hd-map .gpu{{fill:var(--hd-gpu);stroke:var(--hd-gpu-edge);stroke-width:1.5}}
.hd-map .nic{{fill:var(--hd-nic);stroke:var(--hd-nic-edge)}}
.hd-map .nvme{{fill:var(--hd-nvme);stroke:var(--hd-nvme-edge)}}
.hd-map .wire{{stroke:var(--hd-wire);fill:none}}
.hd-map .untold{{stroke-dasharray:3 3}}
.hd-map .lost{{stroke:var(--hd-critical);fill:none;opacity:.28}}
.hd-map .nvlink{{stroke:var(--hd-nvlink);fill:none;stroke-width:2.5}}
.hd-map .nvlink-text{{fill:var(--hd-nvlink)}}
.hd-map .critical{{fill:var(--hd-critical)}}
.hd-map .warning{{fill:var(--hd-warning)}}
"""
