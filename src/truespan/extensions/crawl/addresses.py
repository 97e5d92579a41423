"""Addresses of the public internet, where web pages are fetched from."""

from __future__ import annotations

import ipaddress

from truespan.providers.outbound import embedded_ipv4

# Shared by threads: networks, which never change.
_GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")
"""Range of IPv6 for addresses of the public internet."""
# Shared by threads: as above.
_SPECIAL_PURPOSE = tuple(
    map(
        ipaddress.ip_network,
        (
            *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16"),
            *("172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24"),
            *("192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24"),
            *("198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
            *("2001::/23", "2001:db8::/32", "2620:4f:8000::/48", "3fff::/20"),
        ),
    )
)


def is_public(address: str) -> bool:
    """Return whether an address is on the public internet, or stands for an IPv4 address there."""
    # Special-purpose addresses are those of the registries of IANA, also where they are assigned to
    # a protocol and reachable: no web server has one.
    ip = ipaddress.ip_address(address.partition("%")[0])
    target = embedded_ipv4(ip) or ip
    if isinstance(target, ipaddress.IPv6Address) and target not in _GLOBAL_UNICAST:
        return False
    return target.is_global and not any(target in network for network in _SPECIAL_PURPOSE)
