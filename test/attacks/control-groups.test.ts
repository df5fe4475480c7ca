import { bwrapDriver } from '@anchorhold/keeper/cells/bwrap/bwrap'
import { run, specMaker } from '@anchorhold/keeper/cells/contract'
import { delegateCgroups, withdrawCgroups } from '@anchorhold/daemon/processes/cgroups'
import { existsSync } from 'node:fs'
import { expect, test } from 'vitest'

test.skipIf(process.getuid?.() !== 0)(
  'control groups of a delegated folder hold memory, processes and cpu of a cell',
  async () => {
    await using specs = specMaker()
    const user = { uid: 1_900_000_001, gid: 1_900_000_001 }
    const cgroups = delegateCgroups('limits-test', user)
    expect(cgroups.length).toBeGreaterThan(0)
    {
      await using cell = await bwrapDriver().start(await specs.make({ cgroups }), AbortSignal.timeout(10_000))
      expect(cell.limits.filter(({ how }) => how.startsWith('control group')).map(({ name }) => name)).toEqual([
        'memory',
        'processes',
        'cpu',
      ])
      expect((await run(cell, ['cat', '/proc/self/cgroup'])).output).not.toContain('limits-test/keeper')
    }
    withdrawCgroups(cgroups)
    expect(cgroups.filter((folder) => existsSync(folder))).toEqual([])
  },
)
