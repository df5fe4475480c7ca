import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

/** What stands between a browser and the daemon, as a proxy or a bad network does. */
export interface Proxy extends AsyncDisposable {
  readonly port: number
  /** Stops passing bytes in both directions and closes nothing; whoever connects is let in and hears nothing. */
  hole(): void
  /** Lets all bytes pass, those held back first. */
  pass(): void
}

const badGateway =
  'HTTP/1.1 502 Bad Gateway\r\ncontent-type: text/html\r\ncontent-length: 15\r\nconnection: close\r\n\r\n<h1>Sorry</h1>\n'

/** Where nobody answers behind it, it says `502` for them. */
export async function proxyTo(target: () => number): Promise<Proxy> {
  let holds = false
  const pairs = new Set<{ readonly near: Socket; readonly far: Socket }>()
  const server = createServer((near) => {
    const far = connect(target(), '127.0.0.1')
    const pair = { near, far }
    pairs.add(pair)
    let reached = false
    const carry = (from: Socket, to: Socket) => {
      from.on('data', (bytes: Buffer) => to.write(bytes))
      from.on('end', () => to.end())
      if (holds) from.pause()
    }
    carry(near, far)
    carry(far, near)
    far.on('connect', () => (reached = true))
    far.on('error', () => (reached ? near.destroy() : near.end(badGateway)))
    near.on('error', () => far.destroy())
    near.on('close', () => {
      far.destroy()
      pairs.delete(pair)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const each = (act: (socket: Socket) => void) => {
    for (const { near, far } of pairs) for (const socket of [near, far]) act(socket)
  }
  return {
    port: (server.address() as AddressInfo).port,
    hole() {
      holds = true
      each((socket) => socket.pause())
    },
    pass() {
      holds = false
      each((socket) => socket.resume())
    },
    async [Symbol.asyncDispose]() {
      each((socket) => socket.destroy())
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
