import { cpSync, realpathSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { giveTo } from '../e2e/host.ts'
import { isRoot, someone } from '../e2e/installation.ts'
import { allThreeOn, setUp } from './setting.ts'

/** The image has a Node and no npm, which is a folder of scripts: the one of this machine is brought along. */
const npm = join(realpathSync('/usr/bin/npm'), '../..')
const asCommand = 'npm() { node /workspace/npm/bin/npm-cli.js "$@"; }'

test('on the rung microvm git clones and pushes, npm installs and curl calls with credentials that are not in the cell', async () => {
  await using setting = await setUp()
  symlinkSync(process.env.ANCHORHOLD_IMAGES ?? '', join(setting.it.state, 'images'))
  expect(await setting.it.cli(['image', 'build'])).toMatchObject({ code: 0 })
  const workspace = setting.withScan()
  for (const part of ['bin', 'lib', 'node_modules', 'package.json', 'index.js'])
    cpSync(join(npm, part), join(workspace, 'npm', part), { recursive: true })
  if (isRoot) giveTo(workspace, someone)
  await allThreeOn('microvm', setting, { workspace, before: asCommand })
})
