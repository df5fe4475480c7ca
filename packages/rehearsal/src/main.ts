// The rehearsal's process: a model that needs no account, for those who call it over its socket. It holds nothing and needs nothing else.
//   node rehearsal.mjs FOLDER
import { rehearsalSocket } from '@anchorhold/core/places'
import { closeSync, writeFileSync } from 'node:fs'
import { rehearsal } from './server.ts'

/** It belongs to whoever is connected to it: the one who started it, which stays connected, and a gate. It ends by itself when both are
 *  gone, however they went, because the kernel closes their connections. It is long enough to be found by the one who started it. */
const aloneMs = 2000

const [folder] = process.argv.slice(2)
if (folder === undefined) {
  console.error('usage: rehearsal FOLDER')
  process.exit(64)
}
const leave = () => void one.close().finally(() => process.exit(0))
const one = await rehearsal(rehearsalSocket(folder), { ms: aloneMs, onAlone: leave })
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, leave)
try {
  // Whoever starts a process of the house hears at its third descriptor that it stands.
  writeFileSync(3, 'ready')
  closeSync(3)
} catch {
  // It was started by hand.
}
