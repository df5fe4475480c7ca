import { bwrapDriver } from '@anchorhold/keeper/cells/bwrap/bwrap'
import { run, trialSpecs, trialUser } from '@anchorhold/keeper/cells/trial'
import { delegateCgroups, withdrawCgroups } from '@anchorhold/daemon/processes/cgroups'
import { existsSync } from 'node:fs'
import { expect, test } from 'vitest'

test.skipIf(process.getuid?.() !== 0)(
  'control groups of a delegated folder hold memory, processes and cpu of a cell',
  async () => {
    await using specs = trialSpecs()
    const cgroups = delegateCgroups('limits-test', trialUser)
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
