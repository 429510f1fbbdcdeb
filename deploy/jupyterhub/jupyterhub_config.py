# SPDX-License-Identifier: Apache-2.0
# JupyterHub whose servers rent: each runs below `sublet run`, as a tenant of the user's name (docs/jupyterhub.md).
# Append it to the hub's own configuration.
import re
import subprocess

from tornado import web

# What a user's server rents: memory of device 0, and percent of its time. Others have what DEFAULT says.
DEFAULT = {"mem": "8G", "share": 20}
USERS = {}
SUBLET = "sublet"


class NoLease(web.HTTPError):
    """The hub shows its text on the page, at once and when the page is asked for again."""

    def __init__(self, message):
        self.jupyterhub_message = message
        super().__init__(409, message)

    @property
    def reason(self):  # the hub would set "error", and shows a text of its own for that
        return self.jupyterhub_message

    @reason.setter
    def reason(self, value):
        pass


def sublet_run(spawner, what):
    rent = USERS.get(spawner.user.name, DEFAULT)
    name = re.sub(r"[^A-Za-z0-9._-]", "-", spawner.user.name)
    return [SUBLET, "run", "--name", name + what, "--gpu", "0", "--mem", rent["mem"], "--share", str(rent["share"]), "-q", "--"]


def rent(spawner):
    """Before each start: whether there is room, as the user, so that the page has the reason; then the command."""
    asked = subprocess.run(
        sublet_run(spawner, ".asks") + ["true"],
        env=spawner.get_env(),
        preexec_fn=spawner.make_preexec_fn(spawner.user.name),
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=60)
    if asked.returncode != 0:
        raise NoLease((asked.stderr.strip().splitlines() or ["sublet: no lease"])[-1])
    spawner.cmd = sublet_run(spawner, "") + ["jupyterhub-singleuser"]


c = get_config()  # noqa: F821  the hub's
c.JupyterHub.spawner_class = "jupyterhub.spawner.LocalProcessSpawner"
c.Spawner.pre_spawn_hook = rent
