"""Messages that no process of Paceline's would send to its parameter server: HTTP/2, gRPC and heads written by hand.

Everything is drawn from a seed. A Stranger sends them over real sockets; Recorder stands between a run and its server and keeps
what they say, which is where the valid messages come from that are mutated here.
"""

import hashlib
import hmac
import random
import socket
import struct
import threading

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 7, 8
END_STREAM, END_HEADERS = 1, 4
HELLO, JOIN, HEARTBEAT, LEAVE, PUSH, STATISTICS, OBSERVE, NEWS = 0, 2, 3, 4, 5, 6, 15, 17  # kinds of heads (ps/protocol.h)
OBSERVER = 1  # a role


def frame(kind, flags, stream, payload, length=None):
    length = len(payload) if length is None else length
    return struct.pack(">I", length)[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


# We take what the server sends, however much it is: otherwise it waits for us.
OPENING = PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 2**31 - 1)) + frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 2**30))


def frames_of(data):
    while len(data) >= 9:
        length = int.from_bytes(data[:3], "big")
        if len(data) < 9 + length:
            return
        yield data[3], data[4], int.from_bytes(data[5:9], "big"), data[9:9 + length]
        data = data[9 + length:]


def headers(token, path=b"/paceline.Transport/Connect", version=b"1"):
    """Of a call, as literals that no table remembers."""
    fields = [(b":path", path), (b":authority", b"localhost"), (b"content-type", b"application/grpc"), (b"te", b"trailers")]
    if version is not None:
        fields.append((b"paceline-transport", version))
    if token is not None:
        fields.append((b"paceline-token", hmac.new(token, b"paceline transport", hashlib.sha256).hexdigest().encode()))
    return b"\x83\x86" + b"".join(b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value for name, value in fields)


def grpc(payload, length=None, compressed=0):
    return struct.pack(">BI", compressed, len(payload) if length is None else length) + payload


def wire(head, body=b"", length=None):
    return struct.pack("<I", len(head) if length is None else length) + head + body


class Recorder:
    """A proxy in front of `server`; afterwards `messages` are the (head, body) that clients have sent."""

    def __init__(self, server):
        self.target = (server.rsplit(":", 1)[0], int(server.rsplit(":", 1)[1]))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.streams = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return
            server = socket.create_connection(self.target)
            self.streams.append(bytearray())
            threading.Thread(target=self.pump, args=(client, server, self.streams[-1]), daemon=True).start()
            threading.Thread(target=self.pump, args=(server, client, None), daemon=True).start()

    def pump(self, source, sink, kept):
        try:
            while data := source.recv(1 << 16):
                sink.sendall(data)
                if kept is not None and len(kept) < 4 << 20:
                    kept += data
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    @property
    def messages(self):
        found = []
        for stream in self.streams:
            data = b"".join(payload for kind, _, _, payload in frames_of(bytes(stream[len(PREFACE):])) if kind == DATA)
            while len(data) >= 5 and len(data) >= 5 + (length := int.from_bytes(data[1:5], "big")):
                message, data = data[5:5 + length], data[5 + length:]
                head = struct.unpack("<I", message[:4])[0]
                if head != 0xffffffff:  # a goodbye
                    found.append((message[4:4 + head], message[4 + head:]))
        return found


class Line:
    """One connection to the server, and calls over it, one after the other."""
    count = 0

    def __init__(self, address, opening=OPENING):
        Line.count += 1
        host, port = address.rsplit(":", 1)
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # no port waits for late packets
        self.socket.bind((f"127.0.0.{2 + Line.count % 200}", 0))
        self.socket.settimeout(30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.connect((host, int(port)))
        self.received, self.stream, self.sent, self.open = b"", -1, 0, True
        self.send(opening)

    def send(self, data):
        self.sent += len(data)
        try:
            self.socket.sendall(data)
        except OSError:
            self.open = False

    def call(self, block, *messages, flags=0):
        self.stream += 2
        self.send(frame(HEADERS, END_HEADERS, self.stream, block) +
                  b"".join(frame(DATA, flags, self.stream, message[i:i + 16384]) for message in messages for i in range(0, len(message), 16384)))

    def next_frame(self):
        """None at the end of the connection."""
        while True:
            for kind, flags, stream, payload in frames_of(self.received):
                self.received = self.received[9 + len(payload):]
                if kind == SETTINGS and not flags & 1:
                    self.send(frame(SETTINGS, 1, 0, b""))
                return kind, flags, stream, payload
            try:
                data = self.socket.recv(1 << 16)
            except ConnectionError:
                data = b""
            if not data:
                self.open = False
                return None
            self.received += data

    def is_ended_by_the_server(self):
        """Waits until the server has ended the call, or the connection; TimeoutError when it does neither."""
        while (found := self.next_frame()) is not None:
            kind, flags, stream, _ = found
            if kind == GOAWAY:
                self.open = False
                return True
            if stream == self.stream and (kind == RST_STREAM or kind == HEADERS and flags & END_STREAM):
                return True
        return True

    def close(self):
        self.socket.close()


class Onlooker:
    """An observer as it should be: how many samples the run has used."""

    def __init__(self, address, token, hello):
        self.line = Line(address)
        self.data = b""
        self.line.call(headers(token), grpc(wire(hello[:1] + bytes([OBSERVER]) + hello[2:6] + struct.pack("<I", 900) + hello[10:])))
        self.next_message()

    def next_message(self):
        while len(self.data) < 5 or len(self.data) < 5 + int.from_bytes(self.data[1:5], "big"):
            found = self.line.next_frame()
            if found is None:
                raise ConnectionError("the server has ended")
            if found[0] == DATA:
                self.data += found[3]
        length = 5 + int.from_bytes(self.data[1:5], "big")
        message, self.data = self.data[5:length], self.data[length:]
        head = struct.unpack("<I", message[:4])[0]
        return message[4:4 + head]

    def used_samples(self):
        self.line.send(frame(DATA, 0, self.line.stream, grpc(wire(bytes([OBSERVE, 0, 0])))))
        while (head := self.next_message())[0] != NEWS:
            pass
        return struct.unpack("<Q", head[9:17])[0]

    def leave(self):
        self.line.send(frame(DATA, 0, self.line.stream, grpc(wire(bytes([LEAVE])))))
        self.line.close()


class Stranger:
    """Sends one malformed message after the other. `joins`: it becomes a member of the run before it sends some of them; a run then goes
    on without it, but its steps are not those of a run that it never joined. `ended`: how many calls and connections the server has ended, `broken_off`: how many the
    stranger has left in the middle."""
    CALLS_OF_A_LINE = 24
    BYTES_OF_A_LINE = 48 << 10  # within the window that a connection begins with

    def __init__(self, address, token, recorded, seed, joins=False):
        self.address, self.token, self.draw, self.joins = address, token, random.Random(seed), joins
        self.hello = next(head for head, _ in recorded if head[0] == HELLO and head[1] == 0)
        heads = {}
        for head, body in recorded:
            heads.setdefault(head[0], (head, body[:2048]))
        self.seeds = list(heads.values())
        self.push = heads[PUSH][0]
        self.line, self.calls, self.kind = None, 0, None
        self.ended = self.broken_off = 0

    def bytes(self, count):
        return self.draw.randbytes(count)

    def worker(self, number=None):
        """A hello as another worker's, which is welcome."""
        number = self.draw.randrange(2, 40) if number is None else number
        return self.hello[:6] + struct.pack("<IQ", number, self.draw.getrandbits(63) + 1) + self.hello[18:]

    def mutated(self, data):
        data = bytearray(data)
        for _ in range(self.draw.choice((1, 1, 2, 5, 20))):
            at = self.draw.randrange(len(data) + 1)
            kind = self.draw.randrange(5)
            if kind == 0 and at < len(data):
                data[at] ^= 1 << self.draw.randrange(8)
            elif kind == 1 and at < len(data):
                data[at] = self.draw.choice((0, 1, 0x7f, 0x80, 0xff))
            elif kind == 2:
                data[at:at] = self.bytes(self.draw.randrange(1, 9))
            elif kind == 3:
                del data[at:at + self.draw.randrange(1, 9)]
            else:
                data[at:at + 8] = struct.pack("<Q", self.draw.choice((0, 1, 2**31 - 1, 2**31, 2**32, 2**53, 2**63, 2**64 - 1)))
        return bytes(data)

    def send_one(self):
        draw = self.draw
        kind = self.kind = draw.randrange(100)
        if kind < 4:
            self.alone(self.bytes(draw.randrange(1, 3000)))
        elif kind < 8:
            self.alone(PREFACE + frame(SETTINGS, 0, 0, b"") + self.bytes(draw.randrange(9, 3000)))
        elif kind < 11:  # a frame that claims another length, or is of another kind, than HTTP/2 has them
            self.alone(PREFACE + frame(SETTINGS, 0, 0, b"") + frame(draw.randrange(256), draw.randrange(256), draw.randrange(4), self.bytes(100), draw.getrandbits(24)))
        elif kind < 15:  # the stream ends, or the connection, in the middle of a message that claims up to 2 GB
            self.leave_in_the_middle(grpc(self.bytes(draw.randrange(2000)), draw.choice((2**31 - 1, 2**31, 2**32 - 1, 8 << 20, 5000))))
        elif kind < 17:
            self.call(grpc(wire(self.worker()))[:draw.randrange(4, 60)], flags=END_STREAM)
        elif kind < 27:
            token = draw.choice((None, b"", b"guess", self.bytes(20)))
            self.call(grpc(wire(self.worker())), block=headers(token))
        elif kind < 31:
            self.call(grpc(wire(self.worker())), block=headers(self.token, version=draw.choice((None, b"0", b"2", b"1 "))))
        elif kind < 33:
            self.call(grpc(wire(self.worker())), block=headers(self.token, path=draw.choice((b"/", b"/paceline.Transport/Connects", b"/a/b"))))
        elif kind < 48:  # another protocol, run or model
            self.call(grpc(wire(self.wrong_hello())))
        elif kind < 53:  # lengths that are none
            self.call(self.hello_and(grpc(wire(self.bytes(20), length=draw.choice((21, 65537, 2**31 - 1, 2**31, 2**32 - 2))))))
        elif kind < 56:
            self.call(self.hello_and(grpc(self.bytes(draw.randrange(0, 4)))))
        elif kind < 58:
            flag = draw.choice((1, 2, 255))  # gRPC 1.51 reads no further after one that it does not know, and says nothing
            message = grpc(wire(bytes([HEARTBEAT])), compressed=flag) + grpc(wire(b"\xff"))
            self.call(self.hello_and(message)) if flag == 1 else self.leave_in_the_middle(message)
        elif kind < 63:
            self.call(grpc(wire(self.bytes(draw.randrange(1, 200)), self.bytes(draw.randrange(100)))))
        elif kind < 80:  # after a hello that is welcome, and perhaps a join: what others say, changed
            head, body = draw.choice(self.seeds)
            head = self.mutated(head)
            if head == bytes([JOIN]):
                head += b"\0"
            self.call(self.hello_and(self.join() + grpc(wire(head, self.mutated(body))) + grpc(wire(b"\xff"))))
        elif kind < 84:
            statistics = grpc(wire(bytes([STATISTICS]), self.bytes(4 * draw.randrange(600))))
            self.call(self.hello_and(self.join() + statistics + grpc(wire(b"\xff"))))
        else:
            self.call(self.hello_and(self.join() + self.wrong_push() + grpc(wire(b"\xff"))))

    def join(self):
        return grpc(wire(bytes([JOIN]))) if self.joins else b""

    def wrong_hello(self):
        hello = bytearray(self.worker())
        kind = self.draw.randrange(5)
        if kind == 0:
            hello[1] = self.draw.choice((2, 3, 255))  # a shard, where there is only one; roles that are none
        elif kind == 1:
            hello[2:6] = struct.pack("<I", self.draw.choice((0, 1, 2**32 - 1)))
        elif kind == 2:
            hello[6:10] = struct.pack("<I", self.draw.choice((1_000_000, 2**31 - 1, 2**31, 2**32 - 1)))
        elif kind == 3:
            at = 30 + self.draw.randrange(64)
            hello[at] = self.draw.choice([byte for byte in b"0123456789abcdefzZ" if byte != hello[at]])
        else:
            hello[-1] ^= 1
        return bytes(hello)

    def wrong_push(self):
        """A segment whose offset, count, sequence, version or length does not fit; never all of a gradient."""
        draw = self.draw
        sequence, version, samples, rate = struct.unpack("<QQQd", self.push[1:33])
        count = draw.choice((0, 1, 7, 256, 2**20, 2**40, 2**53, 2**64 - 1))
        body = self.bytes(draw.choice((0, 4 * min(count, 256), 4 * min(count, 256) + draw.randrange(1, 5))))
        return grpc(wire(bytes([PUSH]) + struct.pack("<QQQdQQB", draw.choice((0, 1, sequence, 2**53)), draw.choice((0, version, 10**6, 2**64 - 1)),
                                                    draw.choice((0, samples, 2**41)), draw.choice((rate, -1.0, float("nan"))),
                                                    draw.choice((0, 5, 10**5, 2**53)), count, draw.randrange(3)), body))

    def hello_and(self, rest):
        return grpc(wire(self.worker())) + rest

    def call(self, message, block=None, flags=0):
        if self.line is None or not self.line.open or self.calls >= self.CALLS_OF_A_LINE or self.line.sent > self.BYTES_OF_A_LINE:
            self.finish()
            self.line, self.calls = Line(self.address), 0
        self.calls += 1
        self.line.call(headers(self.token) if block is None else block, message, flags=flags)
        self.ended += self.line.is_ended_by_the_server()

    def alone(self, data):
        """Over a connection of its own. Half an HTTP/2 frame is waited for by the server: then we go."""
        line = Line(self.address, data)
        line.socket.settimeout(0.02)
        try:
            self.ended += line.is_ended_by_the_server()
        except TimeoutError:
            self.broken_off += 1
        line.close()

    def leave_in_the_middle(self, message):
        line = Line(self.address)
        line.call(headers(self.token), self.hello_and(message))
        self.broken_off += 1
        line.close()

    def finish(self):
        if self.line is not None:
            self.line.close()
