// A keeper for tests, as a process of its own: it takes the lock, listens, and does what the test asks of it.
//   As its model says: `broken` ends, `stuck` never stands, `mortal` dies as soon as it stands (`mortal-once`: the first time alone), and `older`
//   is of the release before this one.
import { folderDisk } from '@anchorhold/link/disk'
import { takeLock } from '@anchorhold/link/lock'
import { openOutbox } from '@anchorhold/link/outbox'
import { listenAsSource } from '@anchorhold/link/source'
import { type Connection, unixWire, type Wire } from '@anchorhold/link/wire'
import type { KeeperCommand } from '@anchorhold/protocol/keeper-commands'
import type { KeeperStart } from '@anchorhold/protocol/keeper-start'
import { linkVersion, type ToDaemon } from '@anchorhold/protocol/link'
import { closeSync, rmSync, writeFileSync } from 'node:fs'
import { text } from 'node:stream/consumers'

const said = (await text(process.stdin)).split('\n').at(-1)!
// It was told its place, and then nothing more.
if (said === '') process.exit(0)
const start = JSON.parse(said) as KeeperStart
if (start.agent.model === 'broken') process.exit(3)
const lock = takeLock(`${start.place.folder}/keeper.lock`)
if (lock === null) process.exit(75)
// It never says that it stands.
if (start.agent.model === 'stuck') await new Promise(() => setInterval(() => {}, 1000))

const outbox = await openOutbox({ disk: folderDisk(`${start.place.folder}/outbox`), now: Date.now })
const say = (message: string) =>
  outbox.append(start.place.session, { type: 'notice', body: { level: 'info', code: 'fake', message } })
/** Says of itself that it is of the release before this one. */
const olderWire: Wire = {
  ...unixWire,
  listen: (path, onConnection) =>
    unixWire.listen(path, (connection) =>
      onConnection(
        Object.create(connection, {
          send: { value: (...frames: ToDaemon[]) => connection.send(...frames.map(asBefore)) },
        }) as Connection,
      ),
    ),
}
const asBefore = (frame: ToDaemon): ToDaemon => (frame.t === 'hello' ? { ...frame, version: linkVersion - 1 } : frame)

const source = await listenAsSource({
  wire: start.agent.model === 'older' ? olderWire : unixWire,
  socketPath: `${start.place.folder}/keeper.sock`,
  source: `keeper/${start.place.session}`,
  outbox,
  async handle(command) {
    const { do: verb } = command as KeeperCommand
    say(verb)
    await outbox.flush()
    if (verb === 'leave') setImmediate(() => void leave())
    return null
  },
})
say('started')
await outbox.flush()
const isMortal = start.agent.model === 'mortal' || (start.agent.model === 'mortal-once' && outbox.last === 1)
// Nobody reaches it any more when it says that it stands.
if (isMortal) rmSync(`${start.place.folder}/keeper.sock`)
writeFileSync(3, 'ready')
closeSync(3)
if (isMortal) process.kill(process.pid, 'SIGKILL')

async function leave(): Promise<void> {
  await source[Symbol.asyncDispose]()
  // Told when nobody is attached any more: only the outbox has it.
  say('left')
  await outbox.flush()
  await outbox.close()
  lock?.release()
  process.exit(0)
}
