"""The S3 server: versitygw over a folder, a module and a key of its own beside those of the control plane."""

from __future__ import annotations

from pathlib import Path

from tests.controlplane.components import Component, Module

VERSITYGW = "1.8.0"

S3_SERVER = Module(
    "S3 server",
    VERSITYGW,
    Path(__file__).parent,
    (Component("versitygw", "github.com/versity/versitygw/cmd/versitygw", VERSITYGW, 0.8, stamp=""),),
)
