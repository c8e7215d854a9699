"""Images, and the files that go into them."""

from __future__ import annotations

import hashlib
from typing import Any

from account import Account, FakeImage
from checking import invalid, known, refusal
from grpclib import Status
from modal_proto import api_pb2

_Result = api_pb2.GenericResult
UNKNOWN_BASE = "never-made"


class Images:
    """A part of the control plane."""

    account: Account

    async def received(self, stream: Any, *fields: str, auth_token: bool = False) -> Any:
        """Of the whole."""
        raise NotImplementedError

    async def ImageGetOrCreate(self, stream: Any) -> None:
        """An image by what it is made of; one that is there is not made again."""
        message = await self.received(stream, "app_id", "image", "builder_version", "namespace")
        image = message.image
        known(
            image,
            "base_images",
            "dockerfile_commands",
            "context_mount_id",
            "gpu_config",
            "image_registry_config",
        )
        if message.app_id not in self.account.apps.values():
            raise refusal(Status.NOT_FOUND, "App not found")
        commands = [command for command in image.dockerfile_commands if command.strip()]
        if not commands or not commands[0].startswith("FROM "):
            raise invalid("a Dockerfile begins with FROM")
        if commands[0] == "FROM base" and [base.docker_tag for base in image.base_images] != ["base"]:
            raise invalid("the base is missing")
        for base in image.base_images:
            if not self.account.images[base.image_id].built:
                raise refusal(Status.FAILED_PRECONDITION, f"image {base.image_id} is not built")
        copies = any(command.split()[0] in ("COPY", "ADD") for command in commands)
        if copies != (image.context_mount_id in self.account.mounts):
            raise invalid("files are copied without a context, or the other way round")
        identity = f"im-{hashlib.sha256(image.SerializeToString(deterministic=True)).hexdigest()[:22]}"
        found = self.account.images.setdefault(identity, FakeImage(identity, image))
        if commands[0] == f"FROM {UNKNOWN_BASE}":
            found.failure = "manifest unknown"
        result = _Result(status=_Result.GENERIC_STATUS_SUCCESS) if found.built else None
        await stream.send_message(api_pb2.ImageGetOrCreateResponse(image_id=identity, result=result))

    async def ImageJoinStreaming(self, stream: Any) -> None:
        """The building of an image, to its end."""
        message = await self.received(stream, "image_id", "timeout", "last_entry_id")
        image = self.account.images[message.image_id]
        await self.account.faults.while_held("hold_builds")
        if image.failure:
            result = _Result(status=_Result.GENERIC_STATUS_FAILURE, exception=image.failure)
        else:
            image.built = True
            result = _Result(status=_Result.GENERIC_STATUS_SUCCESS)
        await stream.send_message(api_pb2.ImageJoinStreamingResponse(result=result, eof=True))

    async def MountBatchedCheckExistence(self, stream: Any) -> None:
        """Which files Modal lacks."""
        message = await self.received(stream, "sha256_hex_hashes")
        missing = [digest for digest in message.sha256_hex_hashes if digest not in self.account.files]
        await stream.send_message(
            api_pb2.MountBatchedCheckExistenceResponse(missing_sha256_hex_hashes=missing)
        )

    async def MountPutFile(self, stream: Any) -> None:
        """A file."""
        message = await self.received(stream, "sha256_hex", "data")
        if hashlib.sha256(message.data).hexdigest() != message.sha256_hex:
            raise invalid("the digest is another file's")
        self.account.files[message.sha256_hex] = message.data
        await stream.send_message(api_pb2.MountPutFileResponse(exists=True))

    async def MountGetOrCreate(self, stream: Any) -> None:
        """Files that are there, under names."""
        message = await self.received(
            stream, "object_creation_type", "files", "app_id", "earliest_checked_at", "environment_name"
        )
        for file in message.files:
            if file.sha256_hex not in self.account.files:
                raise refusal(Status.FAILED_PRECONDITION, f"{file.filename} was never sent")
            self.account.mounted_names.add(file.filename)
        identity = f"mo-{len(self.account.mounts)}"
        self.account.mounts.add(identity)
        await stream.send_message(api_pb2.MountGetOrCreateResponse(mount_id=identity))
