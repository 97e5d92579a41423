"""The contract of every store, part 2: records besides documents."""

import json
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.contract.store_contract import built, shown
from tests.support.failures import raises_code
from tests.support.worlds import LibraryFixture, make_library, other_profile, vector_of
from truespan.errors import Interrupted, NotAllowed, StoreBusy
from truespan.extensions.server.request_rows import KEPT_SECONDS
from truespan.types.answer import Usage
from truespan.types.chunk import ChunkState, QueryEntry
from truespan.types.decision import AnswerMode
from truespan.types.document import PAIR, CountedRevision, CountedWords
from truespan.types.ids import ChunkId, TextHash, WorldId, hash_text
from truespan.types.job import (
    DocumentState,
    JobCounts,
    JobDocument,
    JobLine,
    JobState,
    JobUpdate,
    Phase,
)
from truespan.types.maintenance import RevisionPart
from truespan.types.profile import Calibration
from truespan.types.scope import OWNER, UNLIMITED, Authority, Scope, Verb
from truespan.types.token import TokenRecord
from truespan.types.trust import FailureKind, VerificationFailure

HOSTILE = (
    "'; DROP TABLE chunks; --", '"; DELETE FROM worlds; --', "x' OR '1'='1",
    "%s %(name)s %% $1 ?1 :name {0}", "\\'; SELECT pg_sleep(9); --",
    "$$; DROP SCHEMA truespan CASCADE; $$", "a'||(SELECT name FROM worlds LIMIT 1)||'b",
    "') UNION SELECT text FROM texts --", "\u2019 ʼ ； \u202e -- \\x27 \t\n",
)  # fmt: skip
"""Text that would have an effect if it were executed as a statement."""


class RecordsContract:
    """Jobs, tokens, replies, caches, logs, words, repairs, and checks of the doctor."""

    kind = "sqlite"

    @pytest.fixture
    def lib(self, tmp_path: Path) -> LibraryFixture:
        return make_library(tmp_path, store=self.kind)

    def test_repeated_requests_queue_one_job_of_a_kind(self, lib: LibraryFixture):
        scope, other = built(lib), built(lib, "other")
        once = partial(lib.store.jobs.add, queued=True, once=True)
        first = once(scope, "repair", "{}", "p")

        assert once(scope, "repair", "{}", "q").id == first.id
        assert once(scope, "repair", '{"a": 1}', "p").id != first.id
        assert once(scope, "doctor", "{}", "p").id != first.id
        assert once(other, "repair", "{}", "p").id != first.id
        # A running job may have passed the documents of the next request already.
        assert lib.store.jobs.start(scope, first.id, "p")
        second = once(scope, "repair", "{}", "p")
        assert second.id != first.id
        assert once(scope, "repair", '{"b": 1}', "p", since=second.created_at).id != first.id
        assert len(lib.store.jobs.all(scope)) == 4

    def test_recent_job_counts_as_a_queued_one(self, lib: LibraryFixture) -> None:
        scope = built(lib)
        once = partial(lib.store.jobs.add, queued=True, once=True)
        first = once(scope, "doctor", '{"a": 1}', "p")
        lib.store.jobs.cancel(scope, first.id)

        late = once(scope, "doctor", "{}", "p", since=first.created_at)
        assert (late.id, late.state) == (first.id, JobState.CANCELLED)
        assert once(scope, "doctor", "{}", "p", since=first.created_at + 1).id != first.id

    def test_jobs_of_one_kind_do_not_displace_another_kind(
        self, lib: LibraryFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("truespan.store.tables.jobs.MAX_JOBS", 2)
        scope = built(lib)
        kept = lib.store.jobs.add(scope, "ingest", "{}", "p", queued=True).id
        lib.store.jobs.cancel(scope, kept)
        for _ in range(5):
            lib.store.jobs.cancel(
                scope, lib.store.jobs.add(scope, "repair", "{}", "p", queued=True).id
            )

        kinds = [job.kind for job in lib.store.jobs.all(scope)]
        assert sorted(kinds) == ["ingest", "repair", "repair"]

    def test_job_passes_only_through_its_states(self, lib: LibraryFixture) -> None:
        scope = built(lib)
        job = lib.store.jobs.add(scope, "ingest", '{"a": 1}', "p1", queued=True).id

        assert not lib.store.jobs.resume(scope, job, "p2")
        assert lib.store.jobs.start(scope, job, "p2")
        assert not lib.store.jobs.start(scope, job, "p3")
        assert not lib.store.jobs.interrupt(scope, job, "p1")
        assert lib.store.jobs.interrupt(scope, job, "p2")
        found = lib.store.jobs.find(scope, job)
        assert found is not None
        assert (found.state, found.crashes, found.process) == (JobState.INTERRUPTED, 1, "p2")
        queued = JobState.QUEUED
        assert not lib.store.jobs.requeue(scope, job, "p4", seen=queued, crashes=1)
        assert lib.store.jobs.requeue(scope, job, "p4", seen=JobState.INTERRUPTED, crashes=1)
        lib.store.jobs.cancel(scope, job)
        found = lib.store.jobs.find(scope, job)
        assert found is not None
        assert (found.state, found.request) == (JobState.CANCELLED, '{"a": 1}')
        with raises_code("job_not_found"):
            lib.store.jobs.cancel(scope, "none")
        with raises_code("job_not_found"):
            lib.store.jobs.start(built(lib, "other"), job, "p")

    def test_job_of_a_dead_process_is_queued_until_too_many_crashes(self, lib: LibraryFixture):
        scope = built(lib)
        job = lib.store.jobs.add(scope, "ingest", "{}", "keeper", queued=True).id

        def taken(process: str) -> tuple[bool, JobState, int, str]:
            done = lib.store.jobs.take_over(scope, job, process, owner="keeper", max_crashes=2)
            found = lib.store.jobs.find(scope, job)
            assert found is not None
            return done, found.state, found.crashes, found.process

        assert taken("keeper") == (False, JobState.QUEUED, 0, "keeper")
        assert lib.store.jobs.start(scope, job, "p1")
        assert taken("p2") == (False, JobState.RUNNING, 0, "p1")
        assert taken("p1") == (True, JobState.QUEUED, 1, "keeper")
        assert lib.store.jobs.start(scope, job, "p2")
        assert taken("p2") == (True, JobState.INTERRUPTED, 2, "p2")
        again, seen = lib.store.jobs.requeue, JobState.INTERRUPTED
        assert again(scope, job, "keeper", seen=seen, crashes=0)
        assert lib.store.jobs.start(scope, job, "p3")
        lib.store.jobs.cancel(scope, job)
        assert taken("p3") == (True, JobState.CANCELLED, 1, "p3")
        found = lib.store.jobs.find(scope, job)
        assert found is not None
        assert found.finished_at == lib.clock.now()

    def test_job_reports_the_outcome_of_its_sources(self, lib: LibraryFixture) -> None:
        scope = built(lib)
        job = lib.store.jobs.add(scope, "ingest", "{}", "p").id
        first = JobDocument("a", "a.txt", DocumentState.READ, chunks=1)
        news = JobUpdate({"a": first}, [JobLine(1.0, "info", "one"), JobLine(2.0, "info", "two")])
        counts = JobCounts(documents=1, fraction=0.5)

        def told(state: JobState, news: JobUpdate) -> bool:
            return lib.store.jobs.record(
                scope, job, state=state, phase=Phase.EMBEDDING, counts=counts, news=news
            )

        assert not told(JobState.RUNNING, news)
        lib.store.jobs.cancel(scope, job)
        last = replace(first, state=DocumentState.FAILED, code="x", reason="y")
        assert told(JobState.CANCELLED, JobUpdate({"a": last}, []))
        assert lib.store.jobs.documents(scope, job) == [last]
        assert [line.line for line in lib.store.jobs.lines(scope, job)] == ["one", "two"]
        [listed] = lib.store.jobs.all(scope)
        assert (listed.counts, listed.finished_at) == (counts, lib.clock.now())

    def test_concurrent_starts_run_a_job_once(self, lib: LibraryFixture) -> None:
        scope = built(lib)
        job = lib.store.jobs.add(scope, "ingest", "{}", "p", queued=True).id
        began: list[bool] = []
        threads = [
            threading.Thread(
                target=lambda n=number: began.append(lib.store.jobs.start(scope, job, f"p{n}"))
            )
            for number in range(6)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert sorted(began) == [False] * 5 + [True]

    def test_tokens_belong_to_the_owner_and_end_with_their_worlds(self, lib: LibraryFixture):
        scope = built(lib)
        verbs = frozenset({Verb.READ, Verb.WRITE})
        world, labels = frozenset({scope.world}), frozenset({"group:legal", "user:ana"})
        record = TokenRecord("id-1", "name", world, verbs, created_at=1.0)
        every = TokenRecord(
            "id-2", "all", UNLIMITED, frozenset(Verb), created_at=2.0, expires_at=9.0
        )
        limited = TokenRecord(
            "id-4", "app", world, frozenset({Verb.READ}), audience=labels, impersonate=True
        )

        for one in (record, every, limited):
            lib.store.tokens.create(OWNER, one, bytes(32))
        gone = frozenset({WorldId("00000000-0000-4000-8000-00000000dead")})
        with raises_code("world_not_found"):
            lib.store.tokens.create(OWNER, replace(record, id="id-3", worlds=gone), bytes(32))
        with pytest.raises(NotAllowed):
            lib.store.tokens.all(Authority(UNLIMITED, verbs))
        assert lib.store.tokens.all(OWNER) == [record, every, limited]
        assert lib.store.tokens.find("id-1") == (record, bytes(32))
        assert lib.store.tokens.revoke(OWNER, "id-2", now=5.0)
        assert lib.store.tokens.revoke(OWNER, "id-2", now=7.0)
        assert not lib.store.tokens.revoke(OWNER, "none", now=5.0)
        assert lib.store.tokens.all(OWNER)[1].revoked_at == 5.0
        lib.store.erasures.delete_world(OWNER, scope.world, erase=False)
        assert lib.store.tokens.all(OWNER)[0].worlds == frozenset()

    def test_idempotency_key_is_claimed_once_and_expires(self, lib: LibraryFixture) -> None:
        key, other = b"k" * 32, b"o" * 32

        assert lib.store.requests.claim_key(key, b"f" * 32, "p1") is None
        claim = lib.store.requests.claim_key(key, b"g" * 32, "p2")
        assert claim is not None
        assert (claim.fingerprint, claim.process, claim.reply) == (b"f" * 32, "p1", None)
        assert lib.store.requests.take_over_key(key, "p1", "p2")
        assert not lib.store.requests.take_over_key(key, "p1", "p3")
        lib.store.requests.keep_reply(key, "p2", b"\0reply")
        lib.store.requests.release_key(key, "p2")
        again = lib.store.requests.claim_key(key, b"f" * 32, "p4")
        assert again is not None
        assert again.reply == b"\0reply"
        assert lib.store.requests.claim_key(other, b"f" * 32, "p1") is None
        lib.store.requests.release_key(other, "p1")
        assert lib.store.requests.claim_key(other, b"f" * 32, "p2") is None
        lib.clock.time += KEPT_SECONDS + 1
        assert lib.store.requests.claim_key(key, b"f" * 32, "p5") is None

    def test_concurrent_claims_of_a_key_have_one_winner(self, lib: LibraryFixture) -> None:
        claims: list[Any] = []
        threads = [
            threading.Thread(
                target=lambda n=number: claims.append(
                    lib.store.requests.claim_key(b"k" * 32, b"f" * 32, f"p{n}")
                )
            )
            for number in range(6)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert claims.count(None) == 1
        assert len({claim.process for claim in claims if claim is not None}) == 1

    def test_cached_query_is_used_in_its_world_until_it_expires(self, lib: LibraryFixture) -> None:
        scope, other = built(lib), built(lib, "other")
        lib.store.records.cache_queries(
            scope, [QueryEntry("key", vector_of("a"), b"rows", 1000.0)], now=1000.0
        )

        def cached(scope: Scope, now: float) -> Any:
            return lib.store.records.cached_query(scope, "key", now=now, ttl=10.0)

        assert cached(scope, 1009.9) == ("key", vector_of("a"), b"rows", 1000.0, None)
        assert cached(scope, 1010.0) is None
        assert cached(scope, 999.9) is None
        assert cached(other, 1000.0) is None
        lib.store.records.cache_queries(
            scope, [QueryEntry("key", vector_of("b"), None, 1001.0)], now=1001.0
        )
        assert cached(scope, 1001.0) == ("key", vector_of("b"), None, 1001.0, None)

    def test_unconfirmed_queries_are_confirmed_or_discarded_by_model(self, lib: LibraryFixture):
        scope, other = built(lib), built(lib, "other")
        models = {"first": "model", "second": "model", "third": "other model", "fourth": None}
        for place in (scope, other):
            lib.store.records.cache_queries(
                place,
                [
                    QueryEntry(key, vector_of(key), None, 1.0, model)
                    for key, model in models.items()
                ],
                now=1.0,
            )

        assert sorted(lib.store.records.unconfirmed_queries(scope, "model")) == ["first", "second"]
        lib.store.records.confirm_queries(scope, ["first"])
        lib.store.records.discard_unconfirmed_queries(scope, "model")

        def found(scope: Scope) -> list[str]:
            return [
                key
                for key in models
                if lib.store.records.cached_query(scope, key, now=1.0, ttl=1.0)
            ]

        assert found(scope) == ["first", "third", "fourth"]
        assert lib.store.records.unconfirmed_queries(scope, "model") == []
        assert found(other) == [*models]
        assert sorted(lib.store.records.unconfirmed_queries(other, "model")) == ["first", "second"]

    def test_cached_query_is_not_written_while_others_write(
        self, lib: LibraryFixture, tmp_path: Path
    ) -> None:
        scope, entry = built(lib), QueryEntry("key", vector_of("a"), None, 1000.0)
        lib.store.records.cache_queries(scope, [entry], now=1000.0)
        second = make_library(tmp_path, store=self.kind)
        with second.store._db.write(scope) as session:
            session.execute("UPDATE query_cache SET created_at = 999 WHERE world_id = :world")

            with pytest.raises(StoreBusy):
                lib.store.records.cache_queries(scope, [entry], now=1000.0)

        lib.store.records.cache_queries(scope, [entry], now=1000.0)
        assert lib.store.records.cached_query(scope, "key", now=1000.0, ttl=9.0) == entry

    def test_cooling_keys_wait_in_every_process(self, lib: LibraryFixture, tmp_path: Path) -> None:
        lib.store.limits.cool_down("openai", "first", 12.5)
        lib.store.limits.cool_down("openai", "first", 7.25)

        second = make_library(tmp_path, store=self.kind)
        assert second.store.limits.cooling_until("openai", "first") == 7.25
        assert second.store.limits.cooling_until("openai", "second") == 0.0

    def test_requests_of_a_caller_are_counted_by_all_processes(
        self, lib: LibraryFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        second = make_library(tmp_path, store=self.kind)
        now = 1000.0
        for store in (lib.store, second.store):
            monkeypatch.setattr(store._clock, "now", lambda: now)
        admitted = [
            store.requests.count_request("one", 4)
            for store in (lib.store, second.store)
            for _ in range(3)
        ]
        other = lib.store.requests.count_request("two", 4)
        now += 15.0
        again = [second.store.requests.count_request("one", 4) for _ in range(2)]

        assert admitted == [0.0, 0.0, 0.0, 0.0, 15.0, 15.0]
        assert other == 0.0
        assert again == [0.0, 15.0]

    def test_document_belongs_to_one_running_job(self, lib: LibraryFixture) -> None:
        scope = built(lib)
        claim = lib.store.jobs.claim_documents
        one, two = (
            lib.store.jobs.add(scope, "ingest", "{}", "queue", queued=True).id for _ in range(2)
        )
        with pytest.raises(Interrupted):
            claim(scope, one, "p1", ["a"])
        assert lib.store.jobs.start(scope, one, "p1")
        assert lib.store.jobs.start(scope, two, "p2")

        assert claim(scope, one, "p1", ["a", "b"])
        assert not claim(scope, two, "p2", ["b", "c"])
        assert claim(scope, two, "p2", ["c"])
        assert not claim(scope, one, "p1", ["a", "c"])
        with pytest.raises(Interrupted):
            claim(scope, two, "p1", ["d"])
        lib.store.jobs.record(
            scope, one, state=JobState.QUEUED, phase=Phase.READING, counts=JobCounts(),
            news=JobUpdate(), process="p1",
        )  # fmt: skip
        assert claim(scope, two, "p2", ["b", "c"])
        assert lib.store.jobs.start(scope, one, "p1")
        assert not claim(scope, one, "p1", ["b"], lambda process: process == "p2")
        assert claim(scope, one, "p1", ["b"], lambda process: process != "p2")
        elsewhere = built(lib, "other")
        third = lib.store.jobs.add(elsewhere, "ingest", "{}", "queue", queued=True).id
        assert lib.store.jobs.start(elsewhere, third, "p3")
        assert claim(elsewhere, third, "p3", ["b", "c"])

    def test_parts_of_jobs_of_earlier_versions_are_ignored(self, lib: LibraryFixture) -> None:
        scope = built(lib)
        whole, part = (
            lib.store.jobs.add(scope, "ingest", "{}", "queue", queued=True).id for _ in range(2)
        )
        lib.sql("UPDATE jobs SET parent = ? WHERE id = ?", whole, part)

        assert part not in [job.id for job in lib.store.jobs.all(scope)]
        assert lib.store.jobs.find(scope, part) is None
        assert lib.store.jobs.find(scope, whole) is not None

    def test_usage_log_keeps_only_the_latest_rows(self, lib: LibraryFixture) -> None:
        scope = built(lib)
        usage = Usage(AnswerMode.RAG, 3, "m", None, {"a": [1, "é"]}, {"mode": "rag"})

        def note() -> str:
            lib.clock.time += 1
            return lib.store.records.record_usage(OWNER, scope.world, usage, days=1, max_records=3)

        ids = [note() for _ in range(5)]
        kept = lib.store.records.usage(OWNER, scope.world, limit=10)
        assert [one.id for one in kept] == ids[:1:-1]
        assert kept[0].evidence == {"a": [1, "é"]}
        lib.clock.time += 2 * 86_400
        assert [one.id for one in lib.store.records.usage(OWNER, scope.world, limit=10)] == ids[
            :1:-1
        ]
        last = note()
        assert [one.id for one in lib.store.records.usage(OWNER, scope.world, limit=10)] == [last]

    def test_a_calibration_is_kept_for_its_profile(self, lib: LibraryFixture) -> None:
        scope = built(lib)
        measured = Calibration(0.1, 0.2, 0.3, 0.2, 0.3, 0.4, 0.1, "ten queries")

        assert lib.store.records.kept_calibration(scope) is None
        lib.store.records.keep_calibration(scope, measured)
        assert lib.store.records.kept_calibration(scope) == measured
        other = lib.store.generations.add_generation(scope, other_profile(model="x"), None)
        assert lib.store.records.kept_calibration(Scope(OWNER, scope.world, other)) is None
        assert lib.store.generations.forget_calibration(scope)
        assert not lib.store.generations.forget_calibration(scope)

    def test_words_are_stored_for_a_revision_and_removed_with_it(self, lib: LibraryFixture) -> None:
        scope = built(lib)
        ref = shown(lib, scope, "The harbour light.")
        words = CountedWords(
            *("recipe", {0: hash_text("The harbour light.")}, {0: 3}),
            *(["harbour", "x" * 300], [1, 1], PAIR.pack(0, 1) + PAIR.pack(0, 0xFFFF)),
        )
        counted = CountedRevision(ref, words)

        assert not lib.store.catalogs.counts_words(scope)
        lib.store.catalogs.keep_words(
            scope, [counted, replace(counted, ref=replace(ref, document=9))]
        )
        assert lib.store.catalogs.counts_words(scope)
        world = lib.store.worlds.find(OWNER, scope.world)
        assert world is not None
        [entry] = lib.store.catalogs.words(scope, world).entries
        assert (entry.ref, entry.fresh, dict(entry.lengths)) == (ref, True, {0: 3})
        postings = lib.store.catalogs.postings(scope, ["harbour"])["harbour"]
        assert (list(postings.keys), postings.packed) == ([entry.key], bytes([0, 0, 0, 0, 1, 0]))
        assert lib.store.catalogs.postings(scope, ["x" * 300])["x" * 300].packed[4:] == b"\xff\xff"
        for key in (None, entry.key):
            found = lib.store.catalogs.vocabulary(scope, world, key)
            assert set(found.terms) == {"harbour", "x" * 300}
            assert lib.store.catalogs.vocabulary(scope, world, key) is found
        assert lib.store.catalogs.vocabulary(scope, world, entry.key + 1).terms == ()
        held = lib.store.catalogs.revision_words(scope, world, ref)
        assert (held.key, held.recipe, held.fresh) == (entry.key, "recipe", True)
        [chunk] = held.chunks.values()
        assert (chunk.index, chunk.seen_from, chunk.trusted, chunk.words) == (0, 0, True, 3)
        assert list(held.chunks) == lib.store.documents.chunk_ids(scope, ref)
        words = lib.store.catalogs.revision_postings(
            scope, ref, entry.key, ["harbour", "x" * 300, "none"]
        )
        assert words == {"harbour": bytes([0, 0, 0, 0, 1, 0]), "x" * 300: b"\0\0\0\0\xff\xff"}
        assert lib.store.catalogs.revision_postings(scope, ref, entry.key + 1, ["harbour"]) is None
        lib.store.documents.tombstone(scope, 1)
        lib.store.documents.purge(scope, ref)
        assert not lib.store.catalogs.counts_words(scope)

    def test_flaws_are_recorded_once_and_repairs_completed(self, lib: LibraryFixture) -> None:
        scope = built(lib)
        ref = shown(lib, scope, "The harbour light.")
        [chunk] = lib.store.documents.chunk_ids(scope, ref)
        stale = VerificationFailure(
            FailureKind.STALE, chunk, TextHash("p" * 64), TextHash("f" * 64)
        )
        orphan = VerificationFailure(FailureKind.ORPHAN, ChunkId("none"), TextHash("q" * 64), None)

        for _ in range(2):
            lib.store.chunks.record_failures(scope, [stale, orphan])
        repairs = lib.store.chunks.repairs(scope)
        assert [one.failure for one in repairs] == [stale, orphan]
        assert lib.store.chunks.read(scope, [chunk])[chunk].state is ChunkState.PENDING
        assert lib.store.chunks.unfinished(scope) == [ref]
        lib.store.chunks.finish_repairs(scope, [repairs[0].number])
        assert [one.failure for one in lib.store.chunks.repairs(scope)] == [orphan]

    def test_doctor_finds_and_repairs_damage(self, lib: LibraryFixture) -> None:
        scope = built(lib)
        ref = shown(lib, scope, "The harbour light.")
        [chunk] = lib.store.documents.chunk_ids(scope, ref)
        vectors = {hash_text("The harbour light."): vector_of("The harbour light.")}

        assert list(lib.store.scrub.text_flaws(scope)) == []
        assert list(lib.store.scrub.revision_flaws(scope)) == []
        assert lib.store.scrub.tally_flaws(scope) == []
        kept = [(*vectors.popitem(), True)]
        vectors = {kept[0][0]: kept[0][1]}
        assert list(lib.store.scrub.kept_vectors(scope)) == [kept]
        [(sampled, text)] = lib.store.scrub.sample(scope, 5)
        assert (sampled.chunk_id, text) == (chunk, "The harbour light.")
        lib.sql("UPDATE texts SET text = 'gone'")
        [flaw] = lib.store.scrub.revision_flaws(scope)
        assert flaw.restorable
        assert lib.store.scrub.restore_revision(scope, ref, RevisionPart.TEXT)
        assert lib.store.documents.canonical_text(scope, 1) == "The harbour light."
        lib.sql("UPDATE tallies SET embedded = 0")
        [tally] = lib.store.scrub.tally_flaws(scope)
        lib.store.scrub.count_again(scope, tally.revision, tally.generation)
        assert lib.store.scrub.tally_flaws(scope) == []
        lib.store.scrub.forget_vectors(scope, list(vectors))
        assert lib.store.scrub.unsettled(scope) == (1, 0)
        lib.store.chunks.skip(scope, [chunk])
        assert lib.store.scrub.unsettled(scope) == (0, 1)

    def test_lost_index_marks_chunks_of_all_worlds_pending(self, lib: LibraryFixture) -> None:
        scopes = [built(lib, name) for name in ("one", "two")]
        for scope in scopes:
            shown(lib, scope, "The harbour light.")

        lib.store.chunks.mark_all_pending(scopes[0])

        assert [lib.store.scrub.unsettled(scope) for scope in scopes] == [(1, 0), (1, 0)]

    def test_points_of_another_process_in_a_new_index_stay_embedded(self, lib: LibraryFixture):
        scopes = [built(lib, name) for name in ("one", "two")]
        for scope in scopes:
            shown(lib, scope, "The harbour light.")

        lib.store.chunks.mark_all_pending(scopes[0], lambda own: own.world == scopes[1].world)

        assert [lib.store.scrub.unsettled(scope) for scope in scopes] == [(0, 0), (1, 0)]

    @pytest.mark.parametrize("text", HOSTILE)
    def test_text_is_never_executed_as_a_statement(self, lib: LibraryFixture, text: str) -> None:
        scope = built(lib, f"world {text}")
        labels = {"name": text, "path": text, "title": text, "language": text, "version": text}
        optional = {"declared_title": text, "tags": (text,), "source_url": text}
        optional |= {"metadata": json.dumps({text: text}), "shown_path": text}
        ref = shown(lib, scope, f"Text: {text}", text, **labels, **optional, origin=text)
        lib.store.readers.set_position(scope, text, ref, 0, current=True)
        lib.store.limits.cool_down(text, text, 1.0)
        lib.store.records.cache_queries(
            scope, [QueryEntry(text, vector_of(text), None, 1.0)], now=1.0
        )
        lib.store.records.keep_probes(scope, {text: vector_of(text)})
        lib.store.generations.move_alias(scope, text)
        job = lib.store.jobs.add(scope, text, text, text)
        failed = JobDocument(text, text, DocumentState.FAILED, text, text)
        lib.store.jobs.record(
            scope,
            job.id,
            state=JobState.RUNNING,
            phase=Phase.READING,
            counts=JobCounts(current=text),
            news=JobUpdate({text: failed}, [JobLine(1.0, text, text)]),
            error=text,
        )
        token = TokenRecord(text, text, UNLIMITED, frozenset(Verb), created_at=1.0)
        lib.store.tokens.create(OWNER, token, bytes(32))
        words = CountedWords(text, {0: hash_text(text)}, {0: 1}, [text], [1], PAIR.pack(0, 1))
        lib.store.catalogs.keep_words(scope, [CountedRevision(ref, words)])

        found = lib.store.worlds.find(OWNER, f"world {text}", text)
        assert found is not None
        assert found.selector == text
        [document] = lib.store.documents.all(scope)
        assert (document.doc_id, document.title, document.tags) == (text, text, (text,))
        assert lib.store.documents.canonical_text(scope, 1) == f"Text: {text}"
        assert lib.store.readers.in_force(scope, text) is not None
        assert [one.reader for one in lib.store.readers.positions(scope, text)] == [text]
        assert lib.store.limits.cooling_until(text, text) == 1.0
        cached = lib.store.records.cached_query(scope, text, now=1.0, ttl=9.0)
        assert cached == (text, vector_of(text), None, 1.0, None)
        assert list(lib.store.records.probes(scope)) == [text]
        assert lib.store.jobs.documents(scope, job.id) == [failed]
        assert lib.store.tokens.find(text) == (token, bytes(32))
        assert lib.store.catalogs.postings(scope, [text])[text].packed
        key = lib.store.catalogs.postings(scope, [text])[text].keys[0]
        assert lib.store.catalogs.revision_postings(scope, ref, key, [text]) == {
            text: bytes([0, 0, 0, 0, 1, 0])
        }
        for lookup in (
            lambda: lib.store.chunks.read(scope, [ChunkId(text)]),
            lambda: lib.store.chunks.vectors(scope, [TextHash(text)]),
            lambda: lib.store.worlds.find(OWNER, text),
            lambda: lib.store.worlds.find_domain(OWNER, f"{text}?"),
            lambda: lib.store.jobs.find(scope, text),
        ):
            assert not lookup()
        lib.store.documents.tombstone(scope, 1, erase=True)
        assert [line.line for line in lib.store.jobs.lines(scope, job.id)] == ["(deleted)"]
        assert len(lib.store.worlds.all(OWNER)) == 1
