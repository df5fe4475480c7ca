// The gate's process: serves every cell's windows, and alone holds secrets.
//   node gate.mjs FOLDER
import { folderDisk } from '@anchorhold/link/disk'
import { takeLock } from '@anchorhold/link/lock'
import { openOutbox } from '@anchorhold/link/outbox'
import { listenAsSource } from '@anchorhold/link/source'
import { GateCommand } from '@anchorhold/protocol/link'
import { closeSync, writeFileSync } from 'node:fs'
import { gate } from './gate.ts'

const [folder] = process.argv.slice(2)
if (folder === undefined) {
  console.error('usage: gate FOLDER')
  process.exit(64)
}
// What this process makes is for itself alone, unless it says otherwise.
process.umask(0o077)
const lock = takeLock(`${folder}/gate.lock`)
if (lock === null) process.exit(75)

const outbox = await openOutbox({ disk: folderDisk(`${folder}/outbox`), now: Date.now })
const one = await gate({
  folder,
  env: { ...process.env },
  journal: async (session, event) => {
    const n = outbox.append(session, event)
    await outbox.flush()
    return n
  },
  log: (line) => console.log(JSON.stringify(line)),
})
// Its secrets are not for those that it might start.
for (const name of Object.keys(process.env)) delete process.env[name]

const source = await listenAsSource({
  socketPath: `${folder}/link.sock`,
  source: 'gate',
  outbox,
  async handle(raw) {
    const command = GateCommand.parse(raw)
    if (command.do !== 'leave') return one.handle(command)
    setImmediate(() => void leave())
    return null
  },
})
writeFileSync(3, 'ready')
closeSync(3)
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => void leave())

async function leave(): Promise<void> {
  await one.close()
  await outbox.flush()
  await source[Symbol.asyncDispose]()
  await outbox.close()
  lock?.release()
  process.exit(0)
}
