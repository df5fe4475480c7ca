// A cell that holds many connections, each of which asks for a little once in a while: `open` on standard input opens them, `close` closes
// them, and each is answered by a line when it is done.
//   node many-connections.ts SOCKET AUTHORITY CA COUNT EVERY_MS
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import type { TLSSocket } from 'node:tls'
import { ask, connectSecurely } from './secure-calls.ts'

const [socketPath, authority, caFile, count, everyMs] = process.argv.slice(2)
const ca = readFileSync(caFile!, 'utf8')
const host = authority!.split(':')[0]!
const atOnce = 20
let open: TLSSocket[] = []
let timer: NodeJS.Timeout | undefined

for await (const line of createInterface({ input: process.stdin })) {
  if (line === 'open') {
    const wanted = Array.from({ length: Number(count) }).values()
    const dial = async () => {
      for (const _ of wanted) {
        const secure = await connectSecurely({ socketPath: socketPath!, authority: authority! }, host, ca)
        secure.on('error', () => {})
        open.push(secure)
      }
    }
    await Promise.all(Array.from({ length: atOnce }, dial))
    let next = 0
    // Each in its turn, evenly over the time.
    timer = setInterval(
      () => {
        const secure = open[next++ % open.length]!
        if (!secure.destroyed) void ask(secure, host, '/').catch(() => {})
      },
      Number(everyMs) / Number(count),
    )
  } else {
    clearInterval(timer)
    for (const secure of open) secure.destroy()
    open = []
  }
  console.log(line)
}
