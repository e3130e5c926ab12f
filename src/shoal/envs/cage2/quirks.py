"""What the official simulator does that its authors hardly meant, each of which can be switched off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from shoal.vector.errors import ConfigurationError
from shoal.vector.nearest import did_you_mean


class Quirks(NamedTuple):
    """``True``: as in the official simulator of today. The last two are mistakes of older versions, and off."""

    restore_protects_op_server: bool = True
    """After Op_Server0 has been restored once, Impact never has an effect again in that episode."""
    vsftpd_opens_http: bool = True
    """The decoy Vsftpd wants port 21 to be free and opens port 80, so that it can be put up again and again."""
    user3_sql_on_rdp_port: bool = True
    """The database of User3 listens on 3389, where attackers expect a remote desktop, instead of 3390."""
    enterprise_smb_is_nameless: bool = True
    """What listens on port 139 of Enterprise1 and Enterprise2 cannot be attacked, though attackers try."""
    defender_has_no_account: bool = True
    """Nobody can break into Defender."""
    blind_scan_succeeds: bool = True
    """A scan of a host that cannot be reached counts as a success, and nothing is learned."""
    analyse_sees_files_only: bool = True
    """Analyse calls every host with a malicious file Privileged, and no other. Off: it finds out what Red really has."""
    exploit_hides_privileged: bool = True
    """An exploit that is seen turns what Blue believes of the host from Privileged into User."""
    remove_leaves_files: bool = True
    """Malicious files stay when Blue removes what made them."""
    ports_are_never_forgotten: bool = False
    """Until August 19, 2022: what a scan once found, attackers believe for ever, also of decoys that are gone."""
    restore_breaks_smtp: bool = False
    """Until August 16, 2022: HarakaRCE fails on User3 and User4 once they have been restored."""


def quirks_of(given: Quirks | Mapping[str, bool] | None) -> Quirks:
    """Those that were asked for; what is not mentioned is as in the official simulator."""
    if isinstance(given, Quirks):
        return given
    if given is None:
        return Quirks()
    if not isinstance(given, Mapping):
        raise ConfigurationError(f"quirks must be a dictionary of names and booleans, got {given!r}")
    for name in given:
        if name not in Quirks._fields:
            hint = did_you_mean(str(name), Quirks._fields)
            raise ConfigurationError(f"there is no quirk {name!r}.{hint} There are {', '.join(Quirks._fields)}.")
        if not isinstance(given[name], bool):
            raise ConfigurationError(f"the quirk {name!r} is on or off, True or False, got {given[name]!r}")
    return Quirks(**{name: bool(value) for name, value in given.items()})
