import type { SessionId } from '@anchorhold/protocol/ids'
import type { LedgerNode } from '@anchorhold/protocol/link'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { leaseFiles, servedOn } from './leases.ts'
import { sessions, terms } from './test-books.ts'

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

test('leaseFiles() reads a lease that an older gate kept, whose window spoke the one dialect that there was', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'ah-leases-'))
  try {
    const { dialect: _, ...older } = servedOn(terms)
    const money = { budget_nanos: null, spent_nanos: 0, spent_to: 0, closed: false }
    const session = sessions[0]!
    await writeFile(join(folder, `${session}.json`), JSON.stringify({ session, ...older, ...money }))
    expect(await leaseFiles(folder, () => {}).list()).toMatchObject([{ session, dialect: 'messages' }])
  } finally {
    await rm(folder, { recursive: true })
  }
})
