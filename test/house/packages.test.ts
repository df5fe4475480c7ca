import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { z } from 'zod'

const root = join(import.meta.dirname, '../..')
const read = (path: string) => readFileSync(join(root, path), 'utf8')

const Entry = z.object({
  resolved: z.string().optional(),
  integrity: z.string().optional(),
  link: z.boolean().optional(),
  inBundle: z.boolean().optional(),
  bundleDependencies: z.array(z.string()).optional(),
})
const Lock = z.object({ lockfileVersion: z.literal(3), packages: z.record(z.string(), Entry) })
type Lock = z.infer<typeof Lock>

const registry = 'https://registry.npmjs.org/'

/** What a lock would have installed without npm comparing it with a digest that was reviewed, or from elsewhere than the registry. */
function unheld({ packages }: Lock): string[] {
  const inModules = Object.entries(packages).filter(([path]) => /(?:^|\/)node_modules\//.test(path))
  return inModules.flatMap(([path, { resolved, integrity, link, inBundle }]) => {
    // A workspace of this repository.
    if (link === true) return /^packages\/[a-z]+$/.test(resolved ?? '') ? [] : [path]
    // It lies in the package around it, whose digest covers it.
    const around = packages[path.slice(0, path.lastIndexOf('/node_modules/'))]
    if (inBundle === true) return around?.bundleDependencies === undefined ? [path] : []
    // A lock that does not say where from means the registry.
    const isHeld = /^sha512-[\w+/]{86}==$/.test(integrity ?? '') && (resolved ?? registry).startsWith(registry)
    return isHeld ? [] : [path]
  })
}

const locks = ['package-lock.json', 'test/toolchains/clients/package-lock.json']

test.each(locks)('every package in %s comes from the registry and is held to its digest', (path) => {
  const lock = Lock.parse(JSON.parse(read(path)))
  expect(Object.keys(lock.packages).length).toBeGreaterThan(1)
  expect(unheld(lock)).toEqual([])
})

test.each([
  ['has no digest', { integrity: undefined }],
  ['has a weak digest', { integrity: `sha1-${'A'.repeat(27)}=` }],
  ['comes from a repository', { resolved: 'git+ssh://git@github.com/x/y.git#0000000' }],
  ['comes from another server', { resolved: 'https://registry.npmjs.org.example/zod/-/zod-1.0.0.tgz' }],
  ['is a link to elsewhere', { link: true, resolved: '../elsewhere' }],
  ['says that it lies in a package that bundles nothing', { inBundle: true, integrity: undefined }],
] as const)('a package that %s would be noticed', (_, change) => {
  const lock = Lock.parse(JSON.parse(read('package-lock.json')))
  const path = 'node_modules/zod'
  expect(unheld({ ...lock, packages: { ...lock.packages, [path]: { ...lock.packages[path], ...change } } })).toEqual([path])
})

test("no install script of a dependency's ever runs", () => {
  expect(read('.npmrc').split('\n')).toContain('ignore-scripts=true')
  // npm reads the .npmrc of the folder that it is run in, so what setup has it do in another folder says so by itself.
  expect(read('bin/setup.mjs')).toContain('--ignore-scripts')
})
