import type { Config } from '@anchorhold/daemon/config'
import { folders as foldersOf, makeFolders } from '@anchorhold/daemon/folders'
import { reapLaunched } from '@anchorhold/daemon/processes/reap'
import type { Runtime } from '@anchorhold/daemon/processes/runtime'
import { mkdirSync, mkdtempSync, readdirSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { prepareGround } from './ground.ts'

let root = ''
beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), 'ah-ground-')))
  mkdirSync(join(root, 'project'))
})
afterEach(() => rmSync(root, { recursive: true, force: true }))

test('prepareGround() has its folder removed by nobody else while it goes', { repeats: 40 }, async () => {
  const config = { root: false, home: join(root, 'home'), state: join(root, 'state'), config: join(root, 'config') } as Config
  const folders = foldersOf(config.state)
  makeFolders(folders, false)
  const undone = new AsyncDisposableStack()
  const said: string[] = []
  const house = { config, folders, warn: (line: string) => void said.push(line) }
  const { scratch } = await prepareGround(house, { workspace: join(root, 'project'), access: null, isAgent: false }, undone)
  writeFileSync(join(scratch, 'left'), '')
  // Whoever takes it for left behind clears the cell away first, by a program that is not there, and says so.
  const other = () => reapLaunched(folders, { node: process.execPath, reap: join(root, 'nothing.mjs') } as Runtime, house.warn)
  let isGone = false
  const going = undone.disposeAsync().then(() => (isGone = true))
  for (; !isGone; await setImmediate()) await other()
  await going
  expect([readdirSync(folders.launched), said]).toEqual([[], []])
})
