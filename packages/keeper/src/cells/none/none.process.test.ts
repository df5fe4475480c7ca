import { expect, test } from 'vitest'
import { cellContract } from '../contract.ts'
import { trialSpecs } from '../trial.ts'
import { noneDriver } from './none.ts'

const bare = 'a plain process'
cellContract(noneDriver(), {
  'sees extra mounts at their target': 'a plain process sees the host as it is',
  'sees what covers a file and not the file': 'it refuses to start, see below',
  'keeps covered what lies in a folder that is renamed': 'it refuses to start, see below',
  'makes nothing outside where a link is in the way of a cover': 'it refuses to start, see below',
  'finds in its caches what a cell before it left there, and another cell does not': 'it has none',
  'runs nothing out of its caches': 'it has none',
  'cannot write outside its folders': bare,
  'cannot make a file among the devices': bare,
  'has no network but its own loopback': bare,
  'hands no descriptor but the standard streams on': bare,
  'refuses to be started by root without a user of its own': 'it is no boundary for anyone',
})

test('noneDriver() does not start where something is to be hidden', async () => {
  await using specs = trialSpecs()
  const spec = await specs.make()
  const covers = [{ path: `${spec.workspace}/.env`, by: '/dev/null' }]
  await expect(noneDriver().start({ ...spec, covers }, AbortSignal.timeout(10_000))).rejects.toMatchObject({
    code: 'cell_unavailable',
    hint: expect.stringContaining('--repo-filter none') as string,
  })
})
