"""`tf.train.Example` as Protocol Buffers itself has it, from a description: what our own reader is compared with.

A map is on the wire a repeated message with a key and a value, and is one here: the library for Python passes over the
entries of a map that have a field it does not know, which those for other languages do not.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_TYPES = {"bytes": 12, "float": 2, "int64": 3, "message": 11, "string": 9}


def _field(message: Any, name: str, number: int, of: str, repeated: bool = False, packed: bool | None = None) -> Any:
    field = message.field.add(name=name, number=number, label=3 if repeated else 1)
    field.type = _TYPES.get(of, 11)
    if of not in _TYPES:
        field.type_name = f".t.{of}"
    if packed is not None:
        field.options.packed = packed
    return field


def example_class(packed: bool = True) -> Any:
    """The class of messages `Example`; its lists of numbers are packed or not."""
    file = descriptor_pb2.FileDescriptorProto(name=f"example_{packed}.proto", package="t", syntax="proto3")
    for name, of in (("BytesList", "bytes"), ("FloatList", "float"), ("Int64List", "int64")):
        message = file.message_type.add(name=name)
        _field(message, "value", 1, of, repeated=True, packed=None if of == "bytes" else packed)
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, name in enumerate(("bytes_list", "float_list", "int64_list"), 1):
        _field(feature, name, number, name.title().replace("_", "")).oneof_index = 0
    features = file.message_type.add(name="Features")
    entry = features.nested_type.add(name="FeatureEntry")
    _field(entry, "key", 1, "string")
    _field(entry, "value", 2, "Feature")
    _field(features, "feature", 1, "Features.FeatureEntry", repeated=True)
    _field(file.message_type.add(name="Example"), "features", 1, "Features")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)  # pyright: ignore[reportUnknownMemberType]
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Example"))


PACKED, UNPACKED = example_class(), example_class(packed=False)


def plain(message: Any) -> dict[str, tuple[str, list[Any]]]:
    """The features of a message as kinds and lists."""
    features: dict[str, tuple[str, list[Any]]] = {}
    for entry in message.features.feature:
        name, feature = entry.key, entry.value
        kind = feature.WhichOneof("kind")
        values = list(getattr(feature, kind).value) if kind else []
        features[name] = ((kind or "").removesuffix("_list"), values)
    return features
