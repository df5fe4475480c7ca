import { foldersMax } from '@anchorhold/protocol/api/folders'
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { foldersIn, rootFolders } from './host-folders.ts'

const scratch = realpathSync(mkdtempSync(join(tmpdir(), 'ah-folders-')))
afterAll(() => rmSync(scratch, { recursive: true }))
const home = join(scratch, 'home')
for (const folder of ['src/app/.git', 'src/lib', '.ssh', 'state/sessions']) mkdirSync(join(home, folder), { recursive: true })
mkdirSync(join(scratch, 'outside/secret'), { recursive: true })
symlinkSync(join(scratch, 'outside'), join(home, 'src/way-out'))
symlinkSync(home, join(scratch, 'alias'))
writeFileSync(join(home, 'src/file'), '')
const options = { roots: [join(scratch, 'alias'), join(scratch, 'gone')], home, reserved: [join(home, 'state')] }

test('rootFolders() are those that are there, by their real paths', async () => {
  expect(await rootFolders(options)).toEqual([{ path: home, name: 'home', repository: false, usable: false }])
})

test('foldersIn() lists folders, and neither links, files, what is hidden nor what is our own', async () => {
  expect((await foldersIn(home, options)).folders.map(({ name }) => name)).toEqual(['src'])
  expect(await foldersIn(join(scratch, 'alias/src'), options)).toEqual({
    path: join(home, 'src'),
    above: home,
    folders: [
      { path: join(home, 'src/app'), name: 'app', repository: true, usable: true },
      { path: join(home, 'src/lib'), name: 'lib', repository: false, usable: true },
    ],
    more: false,
  })
})

test.each([
  'outside',
  'home/src/way-out',
  'home/src/way-out/secret',
  'home/src/../../outside',
  'home/state',
  'home/state/sessions',
  'home/src/file',
  'home/none',
])('foldersIn() knows of no folder at %s', async (path) => {
  await expect(foldersIn(join(scratch, path), options)).rejects.toMatchObject({ code: 'not_found' })
})

test('foldersIn() lists so many at most, and says that there are more', async () => {
  const many = join(home, 'many')
  for (let at = 0; at <= foldersMax; at++) mkdirSync(join(many, String(at)), { recursive: true })
  const { folders, more } = await foldersIn(many, options)
  expect([folders.length, more]).toEqual([foldersMax, true])
})
