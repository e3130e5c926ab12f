"""The network of CAGE Challenge 2: its hosts, what they run, what attacks it, and what can be put up instead.

Here it is written down as a person would; :func:`network_of` makes of it the arrays that compiled rules read. Sets of ports and
of hosts are numbers, one bit for each.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from shoal.envs.cage2.quirks import Quirks
from shoal.vector.layout import Array


class Subnet(IntEnum):
    """In the order in which attackers look for one that they have not scanned."""

    ENTERPRISE = 0
    OPERATIONAL = 1
    USER = 2


class Service(NamedTuple):
    """A process that listens."""

    port: int
    kind: str = ""
    """What attacks it; nothing attacks one of no kind."""
    user: str = ""


class Host(NamedTuple):
    """A machine as it is when nobody has touched it."""

    name: str
    subnet: Subnet
    is_windows: bool
    services: tuple[Service, ...]
    """In the order of their processes."""
    tenths: int
    """What it costs in every step in which Red has full control of it, in tenths."""


class Exploit(NamedTuple):
    """A way to break into a service."""

    name: str
    port: int
    kind: str


class Decoy(NamedTuple):
    """A service that is not what it seems. It can be put up where ``free_port`` is not used."""

    name: str
    free_port: int
    system: str
    port: int
    kind: str


SSH, WEB, RDP, SMB = "ssh", "web", "rdp", "smb"
FTP, SMTP, SQL = "femitter", "smtp", "mysql"
LINUX, WINDOWS, ANY = "Linux", "Windows", "any"

_LINUX_SHELL = (Service(22, SSH, "root"),)
_INTERNAL = (
    Service(22, SSH, "sshd_server"),
    Service(135, "", "SYSTEM"),
    Service(3389, RDP, "SYSTEM"),
    Service(445, "", "SYSTEM"),
    Service(139, SMB, "SYSTEM"),
    Service(80, WEB, "NetworkService"),
    Service(443, WEB, "NetworkService"),
)
_LINUX_SERVICES = (
    Service(80, WEB, "www-data"),
    Service(3390, SQL, "root"),
    Service(443, WEB, "www-data"),
    Service(25, SMTP, "root"),
)
_FIRST_USERS = (Service(22, SSH, "sshd_server"), Service(21, FTP, "SYSTEM"))

HOSTS = (
    Host("Defender", Subnet.ENTERPRISE, False, (*_LINUX_SHELL, Service(53), Service(53), Service(68)), 1),
    Host("Enterprise0", Subnet.ENTERPRISE, False, _LINUX_SHELL, 10),
    Host("Enterprise1", Subnet.ENTERPRISE, True, _INTERNAL, 10),
    Host("Enterprise2", Subnet.ENTERPRISE, True, _INTERNAL, 10),
    Host("Op_Host0", Subnet.OPERATIONAL, False, _LINUX_SHELL, 1),
    Host("Op_Host1", Subnet.OPERATIONAL, False, _LINUX_SHELL, 1),
    Host("Op_Host2", Subnet.OPERATIONAL, False, _LINUX_SHELL, 1),
    Host("Op_Server0", Subnet.OPERATIONAL, False, _LINUX_SHELL, 10),
    Host("User0", Subnet.USER, True, _FIRST_USERS, 0),
    Host("User1", Subnet.USER, True, _FIRST_USERS, 1),
    Host(
        "User2",
        Subnet.USER,
        True,
        (
            Service(445, SMB, "SYSTEM"),
            Service(139, SMB, "SYSTEM"),
            Service(135, "", "SYSTEM"),
            Service(3389, RDP, "NetworkService"),
        ),
        1,
    ),
    Host("User3", Subnet.USER, False, _LINUX_SERVICES, 1),
    Host("User4", Subnet.USER, False, (*_LINUX_SHELL, *_LINUX_SERVICES), 1),
)
NUM_HOSTS = len(HOSTS)
NAMES = tuple(host.name for host in HOSTS)
DEFENDER, ENTERPRISE0, ENTERPRISE1, ENTERPRISE2 = range(4)
OP_SERVER0, USER0, USER1, USER2, USER3, USER4 = range(7, 13)

EXPLOITS = (
    Exploit("FTPDirectoryTraversal", 21, FTP),
    Exploit("HarakaRCE", 25, SMTP),
    Exploit("SQLInjection", 3390, SQL),
    Exploit("HTTPSRFI", 443, WEB),
    Exploit("HTTPRFI", 80, WEB),
    Exploit("EternalBlue", 139, SMB),
    Exploit("BlueKeep", 3389, RDP),
    Exploit("SSHBruteForce", 22, SSH),
)
"""The one that is preferred comes first."""
NUM_EXPLOITS = len(EXPLOITS)
SQL_INJECTION, BRUTE_FORCE = 2, NUM_EXPLOITS - 1

DECOYS = (
    Decoy("Apache", 80, ANY, 80, WEB),
    Decoy("Femitter", 21, WINDOWS, 21, FTP),
    Decoy("HarakaSMPT", 25, LINUX, 25, SMTP),
    Decoy("Smss", 139, WINDOWS, 139, SMB),
    Decoy("SSHD", 22, ANY, 22, SSH),
    Decoy("Svchost", 3389, WINDOWS, 3389, RDP),
    Decoy("Tomcat", 443, ANY, 443, WEB),
    Decoy("Vsftpd", 21, LINUX, 21, FTP),
)
"""In the order of Blue's actions."""
NUM_DECOYS = len(DECOYS)

PORTS = (21, 22, 25, 53, 68, 80, 135, 139, 443, 445, 3389, 3390)
PORT_22 = 1 << PORTS.index(22)
WEB_PORTS = 1 << PORTS.index(80) | 1 << PORTS.index(443)

NO_SERVICE, REFUSED, USER_SESSION, ADMIN_SESSION = range(4)
"""What an exploit of a host without decoys comes to: there is nothing to attack, nobody to be, or who one becomes."""


class Network(NamedTuple):
    """All of it as arrays."""

    subnet: Array
    tenths: Array
    listening: Array
    """The ports of every untouched host."""
    breach: Array
    """What each exploit of each host comes to."""
    exploit_port: Array
    decoy_fits: Array
    """Whether (1 or 0) the operating system of a host is one for a decoy."""
    decoy_free_port: Array
    decoy_port: Array
    decoy_exploit: Array
    """The exploit that each decoy catches."""


def network_of(quirks: Quirks) -> Network:
    """The network, with these peculiarities, as arrays."""
    hosts, decoys = hosts_of(quirks), decoys_of(quirks)
    caught = {(exploit.port, exploit.kind): number for number, exploit in enumerate(EXPLOITS)}
    return Network(
        subnet=np.array([host.subnet for host in hosts]),
        tenths=np.array([host.tenths for host in hosts]),
        listening=np.array([mask_of(service.port for service in host.services) for host in hosts]),
        breach=np.array([[_breach(host, exploit, quirks) for exploit in EXPLOITS] for host in hosts]),
        exploit_port=np.array([mask_of([exploit.port]) for exploit in EXPLOITS]),
        decoy_fits=np.array(
            [[int(decoy.system in (ANY, WINDOWS if host.is_windows else LINUX)) for host in hosts] for decoy in decoys]
        ),
        decoy_free_port=np.array([mask_of([decoy.free_port]) for decoy in decoys]),
        decoy_port=np.array([mask_of([decoy.port]) for decoy in decoys]),
        decoy_exploit=np.array([caught[decoy.port, decoy.kind] for decoy in decoys]),
    )


def hosts_of(quirks: Quirks) -> list[Host]:
    """The hosts as they really are."""
    return [host._replace(services=_services(host, quirks)) for host in HOSTS]


def decoys_of(quirks: Quirks) -> list[Decoy]:
    """The decoys as they really are."""
    return [
        decoy._replace(port=80, kind=WEB) if decoy.name == "Vsftpd" and quirks.vsftpd_opens_http else decoy
        for decoy in DECOYS
    ]


def mask_of(ports: Iterable[int]) -> int:
    """A set of ports as a number."""
    return sum(1 << PORTS.index(port) for port in set(ports))


def _services(host: Host, quirks: Quirks) -> tuple[Service, ...]:
    services = list(host.services)
    for place, service in enumerate(services):
        if host.name == "User3" and service.kind == SQL and quirks.user3_sql_on_rdp_port:
            services[place] = service._replace(port=3389)
        if host.subnet is Subnet.ENTERPRISE and service.kind == SMB and quirks.enterprise_smb_is_nameless:
            services[place] = service._replace(kind="")
    return tuple(services)


def _breach(host: Host, exploit: Exploit, quirks: Quirks) -> int:
    for service in host.services:
        if (service.port, service.kind) == (exploit.port, exploit.kind):
            if exploit.kind == SSH:
                return REFUSED if host.name == "Defender" and quirks.defender_has_no_account else USER_SESSION
            return ADMIN_SESSION if service.user in ("root", "SYSTEM") else USER_SESSION
    return NO_SERVICE
