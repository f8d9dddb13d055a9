"""Buckets of a queue: which one an element belongs to, and which elements a take gets together.

The next batch of n is that of the bucket whose n-th element came first. When no more elements can come and no bucket
has so many, it is what there is in the bucket of the oldest element. So batches are a function of the elements and of
what is asked for, whenever takes come. Assumes memory of `dfc.ir.queues` whose lock is held. Guarantees that elements
of a bucket leave in the order in which they came, and that those who stay keep theirs.
"""

from dfc.ir.queues import QueueForm, field_bytes, field_offsets, first_bucket
from dfc_target_cpu.entries.queue_slots import QueueSlots
from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import i64


class BucketSlots(QueueSlots):
    """The slots of a queue with buckets, in the code of a function."""

    def _word(self, number: Value) -> Value:
        """The address of a number behind the order of the slots."""
        words = self.f.gep("i8", self.queue, i64(first_bucket(self.form)))
        return self.f.gep("i64", words, number)

    def elements(self, bucket: Value) -> Value:
        """The address of how many a bucket has."""
        return self._word(bucket)

    def seen(self, bucket: Value) -> Value:
        """The address of a place to count the elements of a bucket."""
        return self._word(self.f.add(bucket, i64(len(self.form.bounds))))

    def bucket(self, slot: Value) -> Value:
        """The address of the bucket of the element in a slot."""
        return self._word(self.f.add(slot, i64(2 * len(self.form.bounds))))

    def length(self, slot: Value, field: int) -> Value:
        """Of a field that varies."""
        number = self.form.declared + self.form.varying.index(field)
        address = self.f.gep("i8", self.start(slot), i64(field_offsets(self.form)[number]))
        return self.f.load("i64", address)

    def row_bytes(self, field: int) -> int:
        """What one unit of length takes."""
        return field_bytes(self.form.types[field]) // self.form.bounds[-1]


def came_in(module: ModuleText, form: QueueForm) -> str:
    """`void (ptr queue, i64 slot)`: counts the element of a slot in its bucket."""
    return module.define(f"queue_bucket_in {form}", lambda: _came_in(module, form))


def gather(module: ModuleText, form: QueueForm) -> str:
    """`i64 (ptr queue, i64 count)`: brings up to so many elements of one bucket to the front, which leave next, and
    takes them out of the bucket; how many there are."""
    return module.define(f"queue_bucket_batch {form}", lambda: _Gather(module, form).build())


def longest(module: ModuleText, form: QueueForm, field: int) -> str:
    """`i64 (ptr queue, i64 count)`: the largest length of a field in the elements at the front."""
    return module.define(f"queue_longest {field} {form}", lambda: _longest(module, form, field))


def _function(
    module: ModuleText, name: str, result: str, form: QueueForm, number: str
) -> tuple[FunctionText, BucketSlots]:
    formals = (Parameter("ptr", "queue"), Parameter("i64", number))
    f = module.function(name, result, formals, attributes="nounwind noinline")
    return f, BucketSlots(f, f.arguments[0], form)


def _came_in(module: ModuleText, form: QueueForm) -> FunctionText:
    f, slots = _function(module, "queue_bucket_in", "void", form, "slot")
    slot = f.argument("slot")
    longest_field = i64(0)
    for field in form.varying:
        longest_field = f.maximum(longest_field, slots.length(slot, field))
    bounds = module.table("i64", form.bounds, hint="bounds")
    with f.counted_loop(i64(0), i64(len(form.bounds) - 1), hint="bound") as loop:
        bucket = loop.carry(i64(0))
        bound = f.load("i64", f.gep("i64", bounds, loop.index))
        is_longer = f.icmp("sgt", longest_field, bound)
        loop.next(bucket, f.add(bucket, f.cast("zext", is_longer, "i64")))
    chosen = loop.result(bucket)
    f.store(chosen, slots.bucket(slot))
    number = f.add(f.load("i64", slots.elements(chosen)), i64(1))
    f.store(number, slots.elements(chosen))
    f.atomic_store(f.maximum(slots.count("fullest"), number), slots.address("fullest"), "monotonic")
    f.ret()
    return f


class _Gather:
    """Looks for the bucket from the oldest element on, and goes back through what it has seen."""

    def __init__(self, module: ModuleText, form: QueueForm) -> None:
        self.f, self.slots = _function(module, "queue_bucket_batch", "i64", form, "count")
        self.form = form

    def build(self) -> FunctionText:
        f, slots = self.f, self.slots
        count, first, end = f.argument("count"), slots.count("taken"), slots.count("put")
        is_full = f.icmp("sge", slots.count("fullest"), count)
        oldest = self._bucket_at(first)
        last = f.choose(is_full, lambda: self._last_of_batch(count, first, end), lambda: f.sub(end, i64(1)))
        bucket = f.choose(is_full, lambda: self._bucket_at(last), lambda: oldest)
        left = f.load("i64", slots.elements(bucket))
        number = f.minimum(left, count)
        f.store(f.sub(left, number), slots.elements(bucket))
        chosen = self._let_others_pass(bucket, first, last)
        self._put_in_front(chosen, first, number)
        self._find_fullest()
        f.ret(number)
        return f

    def _bucket_at(self, position: Value) -> Value:
        slots = self.slots
        return self.f.load("i64", slots.bucket(slots.slot_at(slots.index(position))))

    def _last_of_batch(self, count: Value, first: Value, end: Value) -> Value:
        """The position of the element that is the first to make a batch whole."""
        f, slots = self.f, self.slots
        with f.counted_loop(i64(0), i64(len(self.form.bounds)), hint="clear") as clear:
            f.store(i64(0), slots.seen(clear.index))
        look, more, done = (f.label(x) for x in ("look", "more", "done"))
        entry = f.current
        f.branch(look)
        f.begin(look)
        position = f.phi("i64")
        position.add(first, entry)
        address = slots.seen(self._bucket_at(position.value))
        seen = f.add(f.load("i64", address), i64(1))
        f.store(seen, address)
        following = f.add(position.value, i64(1))
        is_last = f.bit_or(f.icmp("sge", seen, count), f.icmp("sge", following, end))
        f.branch_if(is_last, done, more)
        f.begin(more)
        position.add(following, more)
        f.branch(look)
        f.begin(done)
        return position.value

    def _let_others_pass(self, bucket: Value, first: Value, last: Value) -> Value:
        """Elements of other buckets move back to `last`. Those of this one leave the order, and are linked through
        their numbers of buckets, which nobody needs any more: the slot of the first of them."""
        f, slots = self.f, self.slots
        with f.counted_loop(i64(0), f.add(f.sub(last, first), i64(1)), hint="back") as loop:
            target, link = loop.carry(last), loop.carry(i64(0))
            slot = slots.slot_at(slots.index(f.sub(last, loop.index)))
            address = slots.bucket(slot)
            is_chosen = f.icmp("eq", f.load("i64", address), bucket)
            chosen, other, after = (f.label(x) for x in ("chosen", "other", "after"))
            f.branch_if(is_chosen, chosen, other)
            f.begin(chosen)
            f.store(link, address)
            f.branch(after)
            f.begin(other)
            slots.put_slot(slots.index(target), slot)
            f.branch(after)
            f.begin(after)
            loop.next(link, f.select(is_chosen, slot, link))
            loop.next(target, f.select(is_chosen, target, f.sub(target, i64(1))))
        return loop.result(link)

    def _put_in_front(self, chosen: Value, first: Value, number: Value) -> None:
        f, slots = self.f, self.slots
        with f.counted_loop(i64(0), number, hint="front") as loop:
            slot = loop.carry(chosen)
            following = f.load("i64", slots.bucket(slot))
            slots.put_slot(slots.index(f.add(first, loop.index)), slot)
            loop.next(slot, following)

    def _find_fullest(self) -> None:
        f, slots = self.f, self.slots
        with f.counted_loop(i64(0), i64(len(self.form.bounds)), hint="fullest") as loop:
            most = loop.carry(i64(0))
            loop.next(most, f.maximum(most, f.load("i64", slots.elements(loop.index))))
        f.atomic_store(loop.result(most), slots.address("fullest"), "monotonic")


def _longest(module: ModuleText, form: QueueForm, field: int) -> FunctionText:
    f, slots = _function(module, "queue_longest", "i64", form, "count")
    first = slots.count("taken")
    with f.counted_loop(i64(0), f.argument("count"), hint="row") as loop:
        most = loop.carry(i64(0))
        slot = slots.slot_at(slots.index(f.add(first, loop.index)))
        loop.next(most, f.maximum(most, slots.length(slot, field)))
    f.ret(loop.result(most))
    return f
