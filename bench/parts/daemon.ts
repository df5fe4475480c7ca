// What the gate has of a daemon: somebody who opens a session's windows, takes its records and acknowledges them in groups.
//   node daemon.ts LINK_SOCKET WINDOWS_FOLDER UPSTREAM_PORT
import { defaultPolicy } from '@anchorhold/core/policy/default-policy'
import { attachTo } from '@anchorhold/link/attach'
import { newSessionId } from '@anchorhold/protocol/ids'
import { randomBytes } from 'node:crypto'

const owner = {
  node: 'owner',
  caps: { life: null, day: null, tick: null },
  tick_ms: 3_600_000,
  asks: false,
  spent: { life: 0, day: 0, tick: 0 },
}
const [socketPath, folder, port] = process.argv.slice(2)
let last = 0
let due = false
const link = await attachTo({
  socketPath: socketPath!,
  after: 0,
  onRecord({ n }) {
    last = n
    if (due) return
    due = true
    setImmediate(() => {
      due = false
      link.ack(last)
    })
  },
  onLive() {},
  onClose: () => process.exit(0),
})
await link.do({
  do: 'open',
  session: newSessionId(randomBytes),
  folder,
  provider: {
    name: 'local',
    kind: 'local',
    base_url: `http://127.0.0.1:${port}`,
    credential: { from: 'none' },
    auth: 'none',
  },
  budget_nanos: null,
  spent_nanos: 0,
  spent_to: 0,
  rules: { allow: [] },
  authority: { policy: defaultPolicy, grants: [], asked: [] },
  // As every session has it: the owner is above it, and caps nothing.
  ledger: { simulated: false, at: Date.now(), to: 0, nodes: [owner] },
})
