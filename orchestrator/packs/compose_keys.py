"""Keys of a compose service that are not run as written: why each is refused, and which change nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

REFUSED: Final[Mapping[str, str]] = {
    "ports": "no port of the host is opened; services reach each other by name without it",
    "volumes": "neither folders of the host nor shared volumes are mounted; copy files in the Dockerfile",
    "tmpfs": "further temporary folders are not mounted",
    "privileged": "no container gets the host's rights",
    "cap_add": "every capability is dropped, and none is added",
    "devices": "no device of the host is given",
    "network_mode": "a sidecar is on the pod's own network, and on no other",
    "networks": "the pod has one network, and its addresses are leased",
    "pid": "every container has processes of its own only",
    "ipc": "no memory is shared between containers",
    "userns_mode": "the engine's own remapping stays",
    "restart": "a service that died stays dead, so that its end is seen",
    "extra_hosts": "names are those of the services",
    "dns": "nothing outside has a name in the pod",
    "links": "services reach each other by their own names",
    "env_file": "write the variables into `environment`",
    "extends": "write the service out",
    "profiles": "every service is started",
    "container_name": "names on the host belong to the house; use the service's own name",
    "security_opt": "the profile of every container is fixed",
    "sysctls": "kernel settings are not changed",
    "ulimits": "the profile of every container is fixed",
    "logging": "logs are kept as evidence, up to a limit",
    "secrets": "sandboxes hold no secrets",
    "configs": "copy files in the Dockerfile",
    "deploy": "only deploy.resources.limits with cpus, memory and pids is honoured",
    "platform": "images are those of the host's own platform",
    "tty": "there is no terminal",
    "stdin_open": "there is no standard input",
    "scale": "one container per service is run",
}
"""Keys that change what a task is; the reason ends the refusal."""

HARMLESS: Final = frozenset({"expose", "stop_grace_period", "stop_signal", "init", "cap_drop", "pull_policy"})
"""Keys that hold already (capabilities are dropped, an init reaps) or change nothing in a pod."""

MAIN_KEYS: Final = frozenset({"build", "image", "depends_on", "environment", "working_dir", "command"})
"""What a compose file may say of `main`; its limits, user and probes are said in task.toml."""
