import { runs } from '@anchorhold/protocol/test-runs'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, createConnection, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Duplex, duplexPair } from 'node:stream'
import { buffer, text } from 'node:stream/consumers'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { CellProcess } from '../cell.ts'
import { isGone, identify, until } from '../limits/processes.ts'
import { type ChannelOptions, type InsideChannel, insideChannel } from './channel.ts'
import {
  connectionsMax,
  frame,
  type Frame,
  frameReader,
  kinds,
  laneCreditBytes,
  laneKinds,
  lanes,
  payloadBytesMax,
} from './frames.ts'

const program = join(import.meta.dirname, 'inside.ts')
const path = { PATH: '/usr/bin:/bin' }

/** The real program, as a plain process of this machine's. */
async function withInside(
  use: (channel: InsideChannel, parts: { readonly folder: string; readonly program: ChildProcess }) => Promise<void>,
  options: (folder: string) => ChannelOptions = () => ({}),
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'anchorhold-test-'))
  const server = createServer().listen(join(folder, 'cell.sock'))
  await once(server, 'listening')
  const child = spawn(process.execPath, [program, '--socket', join(folder, 'cell.sock')], { stdio: 'ignore', env: {} })
  try {
    const [socket] = (await once(server, 'connection')) as [Socket]
    const channel = insideChannel(socket, options(folder))
    await channel.ready
    await use(channel, { folder, program: child })
    channel.close()
    await once(child, 'exit')
  } finally {
    child.kill('SIGKILL')
    server.close()
    rmSync(folder, { recursive: true })
  }
}

const sh = (channel: InsideChannel, script: string) => channel.spawn(['sh', '-c', script], { env: path, cwd: '/' })
async function outcome(process: CellProcess) {
  process.stdin.end()
  return Promise.all([text(process.stdout), text(process.stderr), process.exited])
}

describe('insideChannel() with the program inside', () => {
  test('joins the standard streams and tells the exit code', () =>
    withInside(async (channel) => {
      const process = sh(channel, 'cat; echo aside >&2; exit 7')
      process.stdin.end('through')
      expect(await Promise.all([text(process.stdout), text(process.stderr), process.exited])).toEqual(['through', 'aside\n', 7])
      expect([process.exitCode, process.killed, process.kill('SIGTERM')]).toEqual([7, false, false])
    }))

  test('gives exactly the environment and folder, even when they are long', () =>
    withInside(async (channel) => {
      const long = 'x'.repeat(100_000)
      const process = channel.spawn(['sh', '-c', 'pwd; echo ${#LONG} ${#LONGER}; env | cut -c1-20'], {
        env: { ...path, LONG: long, LONGER: long },
        cwd: '/usr',
      })
      const [output] = await outcome(process)
      expect(output.split('\n').filter((line) => !/^(PWD|_|SHLVL)=/.test(line))).toEqual(
        expect.arrayContaining(['/usr', '100000 100000', 'PATH=/usr/bin:/bin']),
      )
      expect(output).not.toContain('HOME=')
    }))

  test('tells 127 for a program that is not there, and why', () =>
    withInside(async (channel) => {
      const [, said, code] = await outcome(channel.spawn(['no-such-program'], { env: path, cwd: '/' }))
      expect([said, code]).toEqual([expect.stringContaining('no-such-program'), 127])
    }))

  test('brings signals, and SIGKILL to all that the process has started', () =>
    withInside(async (channel) => {
      const trapping = sh(channel, 'trap "echo caught; exit 5" TERM; echo ready; while :; do sleep 0.05; done')
      await once(trapping.stdout, 'readable')
      expect(trapping.kill('SIGTERM')).toBe(true)
      expect([(await outcome(trapping))[2], trapping.killed]).toEqual([5, true])

      const parent = sh(channel, 'sleep 4321 & echo $!; wait')
      const [first] = (await once(parent.stdout, 'data')) as [Buffer]
      const child = identify(Number(first.toString()))!
      parent.kill('SIGKILL')
      expect(await parent.exited).toBe(137)
      await until('the grandchild has ended', 5000, () => isGone(child))
    }))

  test('a process that is killed at once ends with 137', () =>
    withInside(async (channel) => {
      const process = channel.spawn(['sleep', '1000'], { env: path, cwd: '/' })
      process.kill('SIGKILL')
      expect(await process.exited).toBe(137)
    }))

  test('carries much, both ways and many processes at once, without losing a byte', () =>
    withInside(async (channel) => {
      const input = Buffer.from(Array.from({ length: 300_000 }, (_, n) => `${n}\n`).join(''))
      const outputs = await Promise.all(
        Array.from({ length: 8 }, async () => {
          const process = channel.spawn(['cat'], { env: path, cwd: '/' })
          process.stdin.end(input)
          return buffer(process.stdout)
        }),
      )
      for (const output of outputs) expect(output.equals(input)).toBe(true)
    }))

  test('a process that nobody reads holds up no other, nor does it fill the memory', () =>
    withInside(async (channel) => {
      const unread = sh(channel, 'head -c 50000000 /dev/zero; echo end >&2')
      const unwritten = channel.spawn(['sleep', '1000'], { env: path, cwd: '/' })
      unwritten.stdin.write(Buffer.alloc(10_000_000))
      await once(unread.stdout, 'readable')
      const [output] = await outcome(sh(channel, 'head -c 3000000 /dev/zero | wc -c'))
      expect(output.trim()).toBe('3000000')
      // Until it is read, it waits.
      expect(unread.exitCode).toBeNull()
      expect(unread.stdout.readableLength).toBeLessThanOrEqual(laneCreditBytes)
      expect((await buffer(unread.stdout)).length).toBe(50_000_000)
      expect(await unread.exited).toBe(0)
      unwritten.kill('SIGKILL')
      expect(await unwritten.exited).toBe(137)
    }))

  test('a process whose output is no longer wanted learns it, and one that reads nothing is written to in vain', () =>
    withInside(async (channel) => {
      const talking = sh(channel, 'while echo y; do :; done 2>/dev/null; exit 9')
      await once(talking.stdout, 'data')
      talking.stdout.destroy()
      expect(await talking.exited).toBeGreaterThan(0)
      const deaf = sh(channel, 'exec <&-; echo closed; read _ < /dev/null; sleep 0.1')
      await once(deaf.stdout, 'data')
      await new Promise<void>((resolve) => deaf.stdin.write(Buffer.alloc(1_000_000), () => resolve()))
      expect(await deaf.exited).not.toBeNull()
    }))

  test('relays a window: each connection to the real socket, with half-closed ends', () =>
    withInside(
      async (channel, { folder }) => {
        const server = createServer({ allowHalfOpen: true }, async (socket) => {
          socket.end(`heard ${(await buffer(socket)).length}`)
        }).listen(join(folder, 'real.sock'))
        await once(server, 'listening')
        const say = async (bytes: number) => {
          const socket = createConnection({ path: join(folder, 'windows/model.sock'), allowHalfOpen: true })
          socket.end(Buffer.alloc(bytes))
          return text(socket)
        }
        const sizes = [0, 1, 1000, 2_000_000, 5]
        expect(await Promise.all(sizes.map(say))).toEqual(sizes.map((size) => `heard ${size}`))
        server.close()
        await once(server, 'close')
        // The gate is away: whoever connects is cut off, and the channel lives.
        const refused = createConnection(join(folder, 'windows/model.sock'))
        refused.on('error', () => {})
        await once(refused, 'close')
        expect((await outcome(sh(channel, 'echo still here')))[0]).toBe('still here\n')
      },
      (folder) => ({ relays: { folder: join(folder, 'windows'), sockets: { 'model.sock': join(folder, 'real.sock') } } }),
    ))

  test('more connections at once than are carried wait for their turn, over all windows, and the cell goes on', () =>
    withInside(
      async (channel, { folder }) => {
        let [open, most] = [0, 0]
        const server = createServer({ allowHalfOpen: true }, async (socket) => {
          most = Math.max(most, ++open)
          socket.on('error', () => {}).once('close', () => open--)
          socket.end(`heard ${(await buffer(socket)).length}`)
        }).listen(join(folder, 'real.sock'))
        await once(server, 'listening')
        const sockets = Array.from({ length: 700 }, (_, n) =>
          createConnection({ path: join(folder, `windows/${n % 2 === 0 ? 'model' : 'net'}.sock`), allowHalfOpen: true }),
        )
        await Promise.all(sockets.map((socket) => once(socket, 'connect')))
        // Nobody is done before everybody has come.
        const answers = sockets.map((socket, n) => {
          socket.end(Buffer.alloc(n))
          return text(socket)
        })
        expect(await Promise.all(answers)).toEqual(sockets.map((_, n) => `heard ${n}`))
        expect(most).toBeLessThanOrEqual(connectionsMax)
        expect((await outcome(sh(channel, 'echo still here')))[0]).toBe('still here\n')
        server.close()
      },
      (folder) => ({
        relays: {
          folder: join(folder, 'windows'),
          sockets: { 'model.sock': join(folder, 'real.sock'), 'net.sock': join(folder, 'real.sock') },
        },
      }),
    ))

  test('a program inside that is killed ends the channel and every process with it', () =>
    withInside(async (channel, parts) => {
      const process = channel.spawn(['sleep', '1000'], { env: path, cwd: '/' })
      const away = sh(channel, 'echo on; exec sleep 30')
      await once(away.stdout, 'data')
      parts.program.kill('SIGKILL')
      expect(await channel.closed).toBe('the other side has gone')
      expect([await process.exited, process.exitCode]).toEqual([137, 137])
      expect(await text(process.stdout)).toBe('')
      const late = sh(channel, 'true')
      expect(await outcome(late)).toEqual(['', '', 137])
    }))
})

describe('insideChannel() against a hostile inside', () => {
  test.each([
    ['no frame at all', () => [Buffer.from('GET / HTTP/1.1\r\n\r\n')]],
    ['a frame that is too long', () => [frame(3, laneKinds.data + lanes.out, payloadBytesMax + 1)]],
    ['an empty frame of data', () => [frame(3, laneKinds.data + lanes.out, 0)]],
    ['data for a stream that is not open', () => message(99, laneKinds.data + lanes.out, 'x')],
    ['data for a lane that goes the other way', () => message(3, laneKinds.data + lanes.in, 'x')],
    [
      'data after the end of its lane',
      () => [...message(3, laneKinds.eof + lanes.out), ...message(3, laneKinds.data + lanes.out, 'x')],
    ],
    ['a stream that has ended', () => [...message(3, kinds.end), ...message(3, kinds.exit, '{"code":0}')]],
    ['an exit code that is none', () => message(3, kinds.exit, '{"code":1e9}')],
    ['an exit of another form', () => message(3, kinds.exit, 'null')],
    ['a second greeting', () => message(0, kinds.hello, '{"version":1,"report":""}')],
    ['a start', () => message(3, kinds.start, '{}')],
    ['a signal', () => message(3, kinds.signal, '{}')],
    ['a connection to a window that there is not', () => message(2, kinds.open, '{"name":"../gate.sock"}')],
    ['a connection to a name of every object', () => message(2, kinds.open, '{"name":"constructor"}')],
    ['a connection under an id of ours', () => message(5, kinds.open, '{"name":"model.sock"}')],
    [
      'a connection under an id that was there',
      () => [...message(2, kinds.open, '{"name":"model.sock"}'), ...message(2, kinds.open, '{"name":"model.sock"}')],
    ],
    ['credit that nobody has used', () => message(3, laneKinds.credit + lanes.in, '\0\0\0\x01')],
    [
      'more than there is credit for',
      () => Array.from({ length: 5 }, () => message(3, laneKinds.data + lanes.out, 'x'.repeat(payloadBytesMax))).flat(),
    ],
  ])('%s ends the channel', async (_, bytes) => {
    const { channel, other, process } = await pretended()
    for (const piece of bytes()) other.write(piece)
    expect(await channel.closed).not.toBe('it was closed')
    expect(await process.exited).toBe(137)
  })

  test('as many connections as one likes end the channel, and open no more sockets than the limit', async () => {
    const { channel, other } = await pretended()
    for (let id = 2; id < 2 + 2 * 600; id += 2)
      for (const piece of message(id, kinds.open, '{"name":"model.sock"}')) other.write(piece)
    expect(await channel.closed).toBe('too many connections were opened')
  })

  test('bytes that come one at a time and are not read take up about as much memory as they are', async () => {
    const { channel, other, process } = await pretended()
    const bytes = laneCreditBytes - 1000
    // Somebody has begun to read, and takes nothing.
    process.stdout.read(0)
    const one = Buffer.concat(message(3, laneKinds.data + lanes.out, 'x'))
    // In reads of several sizes, the smallest of one frame each.
    for (let left = bytes; left > 0;) {
      const frames = Math.min(left, left % 7 === 0 ? 3000 : 1)
      if (!other.write(Buffer.concat(Array.from({ length: frames }, () => one)))) await once(other, 'drain')
      left -= frames
    }
    for (const piece of [...message(3, laneKinds.eof + lanes.out), ...message(3, kinds.exit, '{"code":0}')]) other.write(piece)
    expect(await process.exited).toBe(0)
    // As they lie there: whoever calls read() is given all of them in one.
    const chunks: Buffer[] = []
    await once(
      process.stdout.on('data', (chunk: Buffer) => chunks.push(chunk)),
      'end',
    )
    expect(Buffer.concat(chunks).equals(Buffer.alloc(bytes, 'x'))).toBe(true)
    expect(chunks.length).toBeLessThan(100)
    const held = [...new Set(chunks.map((chunk) => chunk.buffer))].reduce((sum, { byteLength }) => sum + byteLength, 0)
    expect(held).toBeLessThan(3 * laneCreditBytes)
    channel.close()
  })

  test('a stream that ends without an end of its lanes leaves nobody waiting', async () => {
    const { channel, other, process } = await pretended()
    const written = new Promise<unknown>((resolve) => process.stdin.write(Buffer.alloc(laneCreditBytes + 1), resolve))
    for (const piece of [...message(3, laneKinds.data + lanes.out, 'said'), ...message(3, kinds.end)]) other.write(piece)
    expect(await Promise.all([text(process.stdout), text(process.stderr), process.exited])).toEqual(['said', '', 137])
    await written
    expect(process.stdin.destroyed).toBe(true)
    channel.close()
  })

  test('a connection that ends without an end of its lanes leaves no socket behind', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'anchorhold-test-'))
    const server = createServer({ allowHalfOpen: true }).listen(join(folder, 'real.sock'))
    await once(server, 'listening')
    const { channel, other } = await pretended(join(folder, 'real.sock'))
    for (const piece of [
      ...message(2, kinds.open, '{"name":"model.sock"}'),
      ...message(2, laneKinds.data + lanes.out, 'said'),
      ...message(2, kinds.end),
    ])
      other.write(piece)
    const [socket] = (await once(server, 'connection')) as [Socket]
    // It would have more to say, and nobody hears it.
    socket.on('error', () => {}).write(Buffer.alloc(10_000_000))
    expect(String((await once(socket, 'data'))[0])).toBe('said')
    await until('the connection is closed', 5000, () => socket.destroyed)
    channel.close()
    server.close()
    rmSync(folder, { recursive: true })
  })

  test('an inside that does not read what it is asked to ends the channel', async () => {
    const { channel, other } = await pretended()
    other.pause()
    for (let i = 0; i < 100; i++) channel.spawn(['x'], { env: { BIG: 'x'.repeat(1_000_000) }, cwd: '/' })
    expect(await channel.closed).toBe('the other side does not read what it is sent')
  })

  test('any garbage, in any pieces, ends the channel or is waited for, and throws nothing', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 30 }), async (pieces) => {
        const { channel, other, process } = await pretended()
        for (const piece of pieces) other.write(piece)
        other.end()
        await channel.closed
        expect(await process.exited).toBeGreaterThanOrEqual(0)
      }),
      { numRuns: runs(300) },
    )
  })

  test('any frames of known kinds, likewise', async () => {
    const known = [...Object.values(kinds), ...Object.values(laneKinds).flatMap((base) => [base, base + 1, base + 2])]
    const one = fc.tuple(
      fc.nat({ max: 8 }),
      fc.constantFrom(...known),
      fc.constantFrom('', 'data', '{"code":3}', '{"name":"model.sock"}', '\0\0\0\x07'),
    )
    await fc.assert(
      fc.asyncProperty(fc.array(one, { maxLength: 30 }), async (frames) => {
        const { channel, other, process } = await pretended()
        for (const [id, kind, payload] of frames) for (const piece of message(id, kind, payload)) other.write(piece)
        other.end()
        await channel.closed
        expect(await process.exited).toBeGreaterThanOrEqual(0)
      }),
      { numRuns: runs(500) },
    )
  })
})

test('frameReader() gives the same frames however the bytes are cut', () => {
  const frames = fc.array(fc.tuple(fc.nat(), fc.uint8Array({ minLength: 1, maxLength: 300 })), { maxLength: 20 })
  fc.assert(
    fc.property(frames, fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 1 }), (sent, cuts) => {
      const whole = Buffer.concat(sent.flatMap(([id, payload]) => message(id, laneKinds.data, Buffer.from(payload))))
      const heard: Frame[] = []
      const read = frameReader((one) => heard.push({ ...one, payload: Buffer.from(one.payload) }))
      for (let at = 0, turn = 0; at < whole.length; turn++) {
        const step = cuts[turn % cuts.length]!
        read(whole.subarray(at, at + step))
        at += step
      }
      expect(heard.map(({ id, payload }) => [id, [...payload]])).toEqual(sent.map(([id, payload]) => [id, [...payload]]))
    }),
  )
})

const message = (id: number, kind: number, payload: string | Buffer = '') => {
  const bytes = Buffer.from(payload as string, 'latin1')
  return [frame(id, kind, bytes.length), bytes]
}

/** A channel that stands, with one process (stream 3), and its other end in our hand. */
async function pretended(
  window = '/nonexistent/model.sock',
): Promise<{ channel: InsideChannel; other: Duplex; process: CellProcess }> {
  const [transport, other] = duplexPair()
  other.on('error', () => {})
  other.resume()
  const channel = insideChannel(transport, {
    relays: { folder: '/run/windows', sockets: { 'model.sock': window } },
  })
  for (const piece of message(0, kinds.hello, '{"version":1,"report":""}')) other.write(piece)
  await channel.ready
  const process = channel.spawn(['true'], { env: {}, cwd: '/' })
  return { channel, other, process }
}
