// What the gate has of a daemon: somebody who opens a session's windows, takes its records and acknowledges them in groups.
//   node daemon.ts LINK_SOCKET WINDOWS_FOLDERS UPSTREAM_PORT [NET_FILE]
// Several folders, with commas between them, are of as many sessions. With a file that says what their nets are, they have a net window.
import { defaultPolicy } from '@anchorhold/core/policy/default-policy'
import { attachTo } from '@anchorhold/link/attach'
import { newSessionId } from '@anchorhold/protocol/ids'
import { Policy } from '@anchorhold/protocol/policy'
import { randomBytes } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const owner = {
  node: 'owner',
  caps: { life: null, day: null, tick: null },
  tick_ms: 3_600_000,
  asks: false,
  spent: { life: 0, day: 0, tick: 0 },
}
const [socketPath, folders, port, netFile] = process.argv.slice(2)
const net = netFile === undefined ? null : (JSON.parse(readFileSync(netFile, 'utf8')) as { rules: unknown[]; net: object })
const policy = Policy.parse({ ...defaultPolicy, rules: [...defaultPolicy.rules, ...(net?.rules ?? [])] })
let last = 0
let due = false
const link = await attachTo({
  socketPath: socketPath!,
  source: 'gate',
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
for (const folder of folders!.split(',')) {
  const opened = await link.do({
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
    ...(net === null ? {} : { network: 'proxy_only', net: net.net }),
    authority: { policy, grants: [], asked: [] },
    // As every session has it: the owner is above it, and caps nothing.
    ledger: { simulated: false, at: Date.now(), to: 0, nodes: [owner] },
  })
  const { authority } = (opened ?? {}) as { authority?: string | null }
  if (authority != null) writeFileSync(join(folder, 'authority'), authority)
}
