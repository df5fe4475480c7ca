import { Nanos } from '@anchorhold/protocol/money'
import { SessionId } from '@anchorhold/protocol/ids'
import { NodeName } from '@anchorhold/protocol/events'
import { Authority } from '@anchorhold/protocol/authority'
import { ModelRules, NetTerms } from '@anchorhold/protocol/gate-commands'
import { Provider } from '@anchorhold/protocol/providers'
import { LedgerNode, ToldNodes } from '@anchorhold/protocol/link'
import { Network, Spend } from '@anchorhold/protocol/sessions'
import { constants } from 'node:fs'
import { mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'

/** On what terms a session is served: enough for a gate that starts to serve it again without the daemon.
 *  A credential is in it as ciphertext, or as the name of where it lies. */
export const KeptLease = z.strictObject({
  session: SessionId,
  folder: z.string(),
  dialect: z.string().max(40).default('messages'),
  provider: Provider,
  rules: ModelRules,
  paused: z.boolean(),
  spend: Spend.default('stop'),
  network: Network.default('none'),
  net: NetTerms.prefault({}),
  budget_nanos: Nanos.nullable(),
  /** What was spent, up to which of the gate's own records: what comes after is added when it is read. */
  spent_nanos: Nanos,
  spent_to: z.int().min(0),
  /** A call cost more than was set aside for it, and nobody has set a new budget since. */
  closed: z.boolean(),
  /** The nodes above the session; what they hold is kept once for all sessions. */
  nodes: z.array(NodeName).default([]),
  agent_cap_nanos: Nanos.nullable().default(null),
  /** What decides over what leaves the cell: the policy, what was allowed and is not used up, what is being asked. */
  authority: Authority,
})
export type KeptLease = z.infer<typeof KeptLease>

/** What a session is served on, beside its money. */
export type ServedOn = Pick<
  KeptLease,
  'dialect' | 'folder' | 'provider' | 'rules' | 'paused' | 'spend' | 'network' | 'net' | 'authority'
>
export const servedOn = ({ dialect, folder, provider, rules, paused, spend, network, net, authority }: ServedOn): ServedOn => ({
  ...{ dialect, folder, provider, rules, paused, spend, network, net, authority },
})

/** As many as there are: the nodes of every session's sub-agents lie here together, and what the daemon may say at once is no bound on that. What
 *  could be written and not read would leave the next gate without any. */
const KeptNodes = z.array(ToldNodes.extend({ nodes: z.array(LedgerNode) }))

/** Where leases outlive their gate, and the nodes above them. A lease is there whole or not at all. */
export interface Leases {
  nodes(): Promise<readonly ToldNodes[]>
  putNodes(nodes: readonly ToldNodes[]): Promise<void>
  list(): Promise<readonly KeptLease[]>
  put(lease: KeptLease): Promise<void>
  remove(session: SessionId): Promise<void>
}

/** One file a session and one for the nodes, for the gate's user alone. */
export function leaseFiles(folder: string, say: (message: string) => void): Leases {
  const fileOf = (session: SessionId) => join(folder, `${session}.json`)
  const nodesFile = join(folder, 'nodes.json')
  async function syncFolder(): Promise<void> {
    const handle = await open(folder, 'r')
    await handle.sync().finally(() => handle.close())
  }
  async function write(path: string, value: unknown): Promise<void> {
    const draft = `${path}.new`
    const { O_CREAT, O_TRUNC, O_WRONLY, O_NOFOLLOW } = constants
    const file = await open(draft, O_CREAT | O_TRUNC | O_WRONLY | O_NOFOLLOW, 0o600)
    try {
      await file.writeFile(JSON.stringify(value))
      await file.datasync()
    } finally {
      await file.close()
    }
    await rename(draft, path)
    await syncFolder()
  }
  return {
    async nodes() {
      try {
        return KeptNodes.parse(JSON.parse(await readFile(nodesFile, 'utf8')))
      } catch (error) {
        // Sessions whose nodes are not known are not served: the daemon tells of them anew.
        if ((error as NodeJS.ErrnoException).code !== 'ENOENT') say(`Cannot read the ledger in "${nodesFile}": not used`)
        return []
      }
    },
    putNodes: (nodes) => write(nodesFile, nodes),
    async list() {
      await mkdir(folder, { recursive: true, mode: 0o700 })
      const found: KeptLease[] = []
      for (const name of await readdir(folder)) {
        const path = join(folder, name)
        if (path === nodesFile) continue
        if (!name.endsWith('.json')) {
          // Half of one that was being written when its gate died.
          await rm(path, { force: true })
          continue
        }
        try {
          found.push(KeptLease.parse(JSON.parse(await readFile(path, 'utf8'))))
        } catch {
          // Nobody is served on terms that cannot be read; the daemon opens the session's windows anew.
          say(`Cannot read the lease in "${path}": removed`)
          await rm(path, { force: true })
        }
      }
      return found
    },
    put: (lease) => write(fileOf(lease.session), lease),
    async remove(session) {
      await rm(fileOf(session), { force: true })
      await syncFolder()
    },
  }
}
