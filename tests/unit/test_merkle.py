"""Merkle trees: the root of RFC 6962, and proofs for every range of leaves."""

from __future__ import annotations

from hashlib import sha256
from itertools import pairwise

from truespan.proof.merkle import EMPTY_ROOT, MerkleTree
from truespan.proof.verify import root_of_range, sentence_leaf


def plain_root(leaves: list[bytes]) -> bytes:
    """Return the root as RFC 6962 defines it."""
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    middle = 1
    while middle * 2 < len(leaves):
        middle *= 2
    return sha256(b"\x01" + plain_root(leaves[:middle]) + plain_root(leaves[middle:])).digest()


def test_merkle_tree_has_the_roots_of_certificate_transparency() -> None:
    # The inputs and roots of the reference implementation.
    inputs = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657"]
    leaves = [sha256(b"\x00" + bytes.fromhex(text)).digest() for text in inputs]

    assert MerkleTree([]).root() == EMPTY_ROOT
    assert MerkleTree(leaves[:1]).root().hex().startswith("6e340b9cffb37a98")
    assert MerkleTree(leaves[:2]).root().hex().startswith("fac54203e7cc696c")
    assert MerkleTree(leaves[:3]).root().hex().startswith("aeb6bcfe274b70a1")
    assert MerkleTree(leaves).root().hex().startswith("ddb89be403809e32")


def test_merkle_tree_has_the_defined_root_at_every_size() -> None:
    leaves = [sha256(bytes([number])).digest() for number in range(70)]

    for size in range(71):
        assert MerkleTree(leaves[:size]).root() == plain_root(leaves[:size])


def test_merkle_proof_of_every_range_leads_to_the_root() -> None:
    leaves = [sha256(bytes([number])).digest() for number in range(19)]
    for size in range(1, 20):
        tree = MerkleTree(leaves[:size])
        for first in range(size):
            for last in range(first, size):
                hashes = tree.prove(first, last)
                found = root_of_range(size, first, leaves[first : last + 1], hashes)
                assert found == tree.root()


def test_merkle_proof_of_another_leaf_place_or_size_fails() -> None:
    leaves = [sha256(bytes([number])).digest() for number in range(11)]
    tree = MerkleTree(leaves)
    hashes = tree.prove(4, 6)
    wrong = [
        (11, 4, [leaves[4], leaves[6], leaves[5]], hashes),
        (11, 3, leaves[4:7], hashes),
        (8, 4, leaves[4:7], hashes),
        (17, 4, leaves[4:7], hashes),
        (11, 4, leaves[4:6], hashes),
        (11, 4, leaves[4:7], hashes[:-1]),
        (11, 4, leaves[4:7], [*hashes, leaves[0]]),
        (11, 4, leaves[4:7], [*hashes[1:], hashes[0]]),
        (11, 9, leaves[4:7], hashes),
        (11, 4, [], hashes),
    ]

    def leads_to_root(size: int, first: int, given: list[bytes], path: list[bytes]) -> bool:
        try:
            return root_of_range(size, first, given, path) == tree.root()
        except (ValueError, IndexError):
            return False

    assert not any(leads_to_root(*case) for case in wrong)
    assert leads_to_root(11, 4, leaves[4:7], hashes)


def test_sentence_leaf_separates_its_members() -> None:
    digest = bytes(32)
    leaves = [sentence_leaf(1, 23, 4, digest), sentence_leaf(12, 3, 4, digest)]

    assert all(one != other for one, other in pairwise(leaves))
