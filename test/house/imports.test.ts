import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { expect, test } from 'vitest'

const root = join(import.meta.dirname, '../..')
const packages = join(root, 'packages')

/** Which packages of the house each may import. Daemon, keeper and gate share only these, and never import each other. */
const mayImport: Readonly<Record<string, readonly string[]>> = {
  protocol: [],
  core: ['protocol'],
  link: ['protocol'],
  gate: ['protocol', 'core', 'link'],
  // The gate's tests call the demo model, which is no part of the gate.
  'gate/src/test-gate.ts': ['protocol', 'core', 'link', 'rehearsal'],
  // Nobody who imports nothing can be told anything but over its socket.
  rehearsal: ['protocol', 'core'],
  keeper: ['protocol', 'core', 'link'],
  daemon: ['protocol', 'core', 'link'],
  cli: ['protocol', 'core'],
  // Of the link it knows how to tell whether a process is still the one that said where it is.
  'cli/src/daemon.ts': ['protocol', 'core', 'link'],
  web: ['protocol', 'core'],
  // Commands that work without a daemon look at the machine themselves.
  'cli/src/doctor-main.ts': ['protocol', 'keeper', 'daemon'],
  'cli/src/disk': ['daemon'],
  'cli/src/images': ['protocol', 'keeper', 'daemon'],
  'cli/src/launcher': ['protocol', 'core', 'link', 'keeper', 'daemon'],
}
/** What a package may import from outside the house, where that is held. */
const mayImportFromOutside: Readonly<Record<string, readonly string[]>> = {
  protocol: ['zod'],
  core: [],
  // The shell parser, for who has to take commands apart; the gate decides upon what was taken apart.
  'core/src/policy/tool-meaning.ts': ['unbash'],
  'core/src/policy/known-shapes.ts': ['unbash'],
  // The parser of GraphQL, loaded when a cell speaks it.
  'core/src/net/read-graphql.ts': ['graphql/language'],
  link: ['node:'],
  rehearsal: ['zod', 'node:'],
  // The process that holds keys imports next to nothing. One file knows the X.509 library, and what that needs to be loaded.
  'gate/src/windows/net/certificates.ts': ['@peculiar/x509', 'reflect-metadata', 'node:'],
  gate: ['zod', 'undici', 'undici/lib/dispatcher/client.js', 'undici/lib/core/connect.js', 'node:'],
}
/** Inside the daemon: doors call verbs, verbs call the rest, and nobody calls back. */
const daemonLevels: Readonly<Record<string, readonly string[]>> = {
  store: ['store'],
  workspace: ['workspace', ''],
  policy: ['policy', ''],
  logins: ['logins'],
  push: ['push'],
  processes: ['processes', 'store', 'workspace', ''],
  app: ['app', 'processes', 'store', 'workspace', 'policy', 'logins', 'push', ''],
  doors: ['doors', 'app', ''],
}

/** Folders under cells/ that are no rung, and that every rung may stand on. */
const sharedByCells = ['limits', 'inside']

type Import = { readonly from: string; readonly to: string }

const files = readdirSync(packages, { recursive: true, encoding: 'utf8' }).filter(
  (path) => /^\w+\/src\/.*\.tsx?$/.test(path) && !path.endsWith('.test.ts'),
)
const imports: Import[] = files.flatMap((from) => {
  const text = readFileSync(join(packages, from), 'utf8')
  const found = [
    ...text.matchAll(
      /^(?:import|export)\b[^'"]*?from\s+['"]([^'"]+)['"]|^import\s+['"]([^'"]+)['"]|\bimport\(\s*['"]([^'"]+)['"]/gm,
    ),
  ]
  return found.map((match) => ({ from, to: (match[1] ?? match[2] ?? match[3])! }))
})
const packageOf = (path: string) => path.split('/')[0]!
const testOnly = (path: string) => /(^|\/)(test-|fake-|memory-|contract)/.test(path.split('/').slice(2).join('/'))

test('every package imports only those below it', () => {
  const wrong = imports.filter(({ from, to }) => {
    const target = /^@anchorhold\/(\w+)/.exec(to)?.[1]
    return (
      target !== undefined &&
      target !== packageOf(from) &&
      !(mayImport[from] ?? mayImport[dirname(from)] ?? mayImport[packageOf(from)])?.includes(target)
    )
  })
  expect(wrong).toEqual([])
  expect(imports.length).toBeGreaterThan(300)
})

test('no file reaches into another package by path', () => {
  const wrong = imports.filter(
    ({ from, to }) => to.startsWith('.') && packageOf(relative(packages, join(packages, dirname(from), to))) !== packageOf(from),
  )
  expect(wrong).toEqual([])
})

test('protocol, core, link, gate and rehearsal import next to nothing from outside', () => {
  const wrong = imports.filter(({ from, to }) => {
    const allowed = mayImportFromOutside[from] ?? mayImportFromOutside[packageOf(from)]
    if (allowed === undefined || to.startsWith('.') || to.startsWith('@anchorhold/') || testOnly(from)) return false
    return !allowed.some((one) => to === one || (one.endsWith(':') && to.startsWith(one)))
  })
  expect(wrong).toEqual([])
})

test('inside the daemon: doors, then app, then processes, workspace and store', () => {
  const level = (path: string) => {
    const rest = path.split('/').slice(2)
    return rest.length === 1 ? '' : rest[0]!
  }
  const wrong = imports.filter(({ from, to }) => {
    if (packageOf(from) !== 'daemon' || !to.startsWith('.') || level(from) === '') return false
    return !daemonLevels[level(from)]?.includes(level(relative(packages, join(packages, dirname(from), to))))
  })
  expect(wrong).toEqual([])
})

test('no files import each other in a circle, types included', () => {
  const paths = new Set(files)
  const targetOf = ({ from, to }: Import) => {
    const house = /^@anchorhold\/(\w+)\/(.+)$/.exec(to)
    const path = house === null ? relative(packages, join(packages, dirname(from), to)) : `${house[1]}/src/${house[2]}`
    return [path, `${path}.ts`, `${path}.tsx`].find((one) => paths.has(one))
  }
  const left = new Map(files.map((file) => [file, new Set<string>()]))
  for (const one of imports) {
    const target = one.to.startsWith('.') || one.to.startsWith('@anchorhold/') ? targetOf(one) : undefined
    if (target !== undefined) left.get(one.from)!.add(target)
  }
  expect([...left.values()].reduce((sum, { size }) => sum + size, 0)).toBeGreaterThan(1000)
  // Whoever imports nothing that is left is in no circle, and neither is whoever is imported by nothing that is left.
  for (let before = -1; before !== left.size;) {
    before = left.size
    const imported = new Set([...left.values()].flatMap((targets) => [...targets].filter((target) => left.has(target))))
    for (const [file, targets] of left)
      if (!imported.has(file) || ![...targets].some((target) => left.has(target))) left.delete(file)
  }
  expect([...left.keys()]).toEqual([])
})

test('a cell is known by cell.ts and an agent by agent.ts: their folders do not import each other', () => {
  const wrong = imports.filter(({ from, to }) => {
    const inside = /^keeper\/src\/(cells|agents)\/(\w+)\//.exec(from)
    if (inside === null || !to.startsWith('.')) return false
    const target = /^keeper\/src\/(cells|agents)\/(\w+)\//.exec(relative(packages, join(packages, dirname(from), to)))
    return target !== null && target[1] === inside[1] && target[2] !== inside[2] && !sharedByCells.includes(target[2]!)
  })
  expect(wrong).toEqual([])
})

test('what runs inside a cell as built asks Node alone', () => {
  for (const program of ['forwarder.mjs', 'inside.cjs']) {
    const bundle = readFileSync(join(root, 'dist', program), 'utf8')
    const outside = [...bundle.matchAll(/(?:^import[^'"]*|\brequire\()['"]([^'"]+)['"]/gm)].map((match) => match[1]!)
    expect(outside.filter((name) => !name.startsWith('node:'))).toEqual([])
    const { packages: contents } = built()
    expect(contents[program.split('.')[0]!]).toEqual([])
  }
})

test('what makes text of pages as built brings its parser along, and asks Node for the rest', () => {
  const bundle = readFileSync(join(root, 'dist/reader.mjs'), 'utf8')
  const outside = [...bundle.matchAll(/^import[^'"]*['"]([^'"]+)['"]/gm)].map((match) => match[1]!)
  expect(outside.filter((name) => !name.startsWith('node:'))).toEqual([])
  const { packages: contents } = built()
  expect(contents.reader).toEqual(['entities', 'htmlparser2'])
})

test('the attacks as built bring no test framework along', () => {
  const { packages: contents } = built()
  expect(contents.prove).toEqual(['picomatch', 'yaml', 'zod'])
})

/** The X.509 library comes in many pieces. */
const certificates = [
  ...['asym-key', 'cms', 'csr', 'ecc', 'pfx', 'pkcs8', 'pkcs9', 'rsa', 'schema', 'x509', 'x509-attr', 'x509-post-quantum'].map(
    (part) => `@peculiar/asn1-${part}`,
  ),
  ...['@peculiar/utils', '@peculiar/x509', 'asn1js', 'pvtsutils', 'pvutils', 'reflect-metadata', 'tslib', 'tsyringe'],
]

test('the gate as built contains zod, undici, the X.509 library, the parser of GraphQL and our own code, and asks Node for the rest', () => {
  const bundle = readFileSync(join(root, 'dist/gate.mjs'), 'utf8')
  const outside = [...bundle.matchAll(/^import[^'"]*['"]([^'"]+)['"]/gm)]
    .map((match) => match[1]!)
    .filter((name) => !name.startsWith('node:'))
  expect(outside).toEqual([])
  const { packages: contents } = built()
  expect(contents.gate).toEqual([...certificates, 'graphql', 'undici', 'zod'].toSorted())
})

test('the demo model as built is a program of its own: nothing of it is in the gate, and nothing of the gate in it', () => {
  const { pieces, packages: contents } = built()
  const modules = (piece: string) => pieces[piece]!.modules.filter((module) => /^packages\/(gate|rehearsal)\//.test(module))
  expect(modules('gate.mjs').length).toBeGreaterThan(20)
  expect(modules('gate.mjs').filter((module) => module.startsWith('packages/rehearsal/'))).toEqual([])
  expect(modules('rehearsal.mjs').length).toBeGreaterThan(5)
  expect(modules('rehearsal.mjs').filter((module) => module.startsWith('packages/gate/'))).toEqual([])
  expect(contents.rehearsal).toEqual(['zod'])
})

test('the daemon as built starts without the schemas of its API, which are there', () => {
  const { pieces } = built()
  const begun = new Set<string>()
  const begin = (piece: string): void => {
    if (begun.has(piece) || pieces[piece] === undefined) return
    begun.add(piece)
    pieces[piece].imports.forEach(begin)
  }
  begin('daemon.mjs')
  const has = (piece: string) => pieces[piece]!.modules.includes('packages/protocol/src/api/api.ts')
  expect([...begun].filter(has)).toEqual([])
  expect(Object.keys(pieces).filter((piece) => piece.startsWith('daemon') && has(piece))).not.toEqual([])
})

type Built = {
  /** By program. */
  readonly packages: Readonly<Record<string, readonly string[]>>
  /** By file. */
  readonly pieces: Readonly<Record<string, { readonly imports: readonly string[]; readonly modules: readonly string[] }>>
}
function built(): Built {
  return JSON.parse(readFileSync(join(root, 'dist/contents.json'), 'utf8')) as Built
}
