import type { SessionId } from '@anchorhold/protocol/ids'
import type { LedgerNode } from '@anchorhold/protocol/link'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { leaseFiles } from './leases.ts'

test('leaseFiles() reads as many nodes as it has written: those of all sessions, with a hundred sub-agents each', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'ah-leases-'))
  try {
    const said: string[] = []
    const session = 'ses_0000000000000001' as SessionId
    const nodes = Array.from({ length: 5000 }, (_, index): LedgerNode => ({
      node: `agent/${session}/a${index}`,
      caps: { life: 50, day: null, tick: null },
      tick_ms: 3_600_000,
      asks: false,
      spent: { life: index, day: 0, tick: 0 },
    }))
    const told = [{ simulated: false, at: 7, to: 3, nodes }]
    await leaseFiles(folder, (message) => said.push(message)).putNodes(told)
    expect(await leaseFiles(folder, (message) => said.push(message)).nodes()).toEqual(told)
    expect(said).toEqual([])
  } finally {
    await rm(folder, { recursive: true })
  }
})
