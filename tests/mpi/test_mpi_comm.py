"""The network of MPI: every element type, zero-copy, long messages in pieces, sums with the bits of the definition."""

from __future__ import annotations

from tests.support.mpi import run_ranks


def test_messages_of_any_type_arrive_unchanged_and_long_ones_in_pieces():
    done = run_ranks(
        2,
        """
        import ml_dtypes
        import numpy as np
        from mpi4py import MPI
        from dfc_runtime.distributed.transport.comm import as_bytes
        from dfc_runtime.distributed.transport.mpi import MpiComm
        from tests.support.ranks import spin

        for piece in (1 << 30, 1000):
            comm = MpiComm(MPI.COMM_WORLD, piece=piece)
            for dtype in (np.float32, ml_dtypes.bfloat16, np.complex128, np.bool_, np.uint8):
                expected = (np.arange(5000) % 7).astype(dtype)
                if comm.rank == 0:
                    pending = comm.isend(as_bytes(expected), 1, 20)
                else:
                    found = np.zeros_like(expected)
                    pending = comm.irecv(as_bytes(found), 0, 20)
                spin(comm)(pending.test)
                assert comm.rank == 0 or found.tobytes() == expected.tobytes()
            comm.close()
        print("rank", comm.rank)
        """,
    )
    assert done.out == ["rank 0\n", "rank 1\n"]


def test_messages_of_unknown_size_wrong_size_and_messages_given_up():
    done = run_ranks(
        2,
        """
        import numpy as np
        from mpi4py import MPI
        from dfc_runtime.distributed.transport.mpi import MpiComm
        from dfc_runtime.errors import RankError
        from tests.support.ranks import spin

        comm, wait = MpiComm(MPI.COMM_WORLD), None
        wait = spin(comm)
        if comm.rank == 0:
            for tag, size in ((20, 5), (21, 3), (22, 4), (23, 1)):
                wait(comm.isend(np.arange(size, dtype=np.uint8), 1, tag).test)
        else:
            given_up = comm.irecv(np.zeros(1, np.uint8), 0, 24)
            given_up.cancel()
            assert given_up.test()
            found = []
            wait(lambda: found.append(comm.arrival(None, 20)) or found[-1] is not None)
            buffer = np.zeros(found[-1].size, np.uint8)
            wait(found[-1].receive(buffer).test)
            print(found[-1].source, list(map(int, buffer)))
            for tag, size in ((21, 4), (22, 3)):
                try:
                    wait(comm.irecv(np.zeros(size, np.uint8), 0, tag).test)
                except RankError as problem:
                    print(tag, problem)
            wait(comm.irecv(np.zeros(1, np.uint8), 0, 23).test)
        MPI.COMM_WORLD.Barrier()
        """,
    )
    said = done.out[1].splitlines()
    assert said[0] == "0 [0, 1, 2, 3, 4]"
    assert "has 3 bytes instead of 4" in said[1]
    assert said[2].startswith("22 [E0911]")


def test_sums_have_the_bits_of_the_definition():
    done = run_ranks(
        3,
        """
        import numpy as np
        from mpi4py import MPI
        from dfc_runtime.distributed.transport.buffers import Pool
        from dfc_runtime.distributed.transport.mpi import MpiComm
        from dfc_runtime.distributed.reduce.operation import Group, Operation
        from dfc_runtime.distributed.reduce.reducer import Reducer
        from dfc_runtime.distributed.reduce.reduction_plan import dealt
        from tests.support.combining import sequential
        from tests.support.ranks import spin

        comm = MpiComm(MPI.COMM_WORLD)
        random = np.random.default_rng(0)
        for size in (1, 1000, 700_001):
            arrays = [random.normal(size=size).astype(np.float32) for _ in range(8)]
            reducer = Reducer(comm, Pool(), spin(comm))
            reducer.declare("g", Operation(8, (16, 17)), Group((0, 1, 2), comm.rank))
            for _ in range(3):
                for block in range(*dealt(8, 3, comm.rank)):
                    reducer.contribute("g", block, arrays[block])
                out = np.empty(size, np.float32)
                reducer.combined("g", out, 1 / 8)
                assert out.tobytes() == sequential(arrays, 1 / 8).tobytes()
            reducer.finish()
        print("rank", comm.rank)
        """,
    )
    assert done.out == ["rank 0\n", "rank 1\n", "rank 2\n"]
