import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { removeTree, removeTrees } from './trees.ts'

let base = ''
let tree = ''
beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'ah-trees-'))
  tree = join(base, 'tree')
  mkdirSync(tree)
})
afterEach(() => {
  // What a test has closed, an ordinary user cannot look into.
  execFileSync('chmod', ['-R', 'u+rwX', '--', base])
  execFileSync('rm', ['-rf', '--', base])
})

const perl = (script: string) => execFileSync('perl', ['-e', script], { cwd: tree })
const nameless = 'mkdir "a\\xff"; mkdir "a\\xff/b\\xfe"; open F, ">a\\xff/b\\xfe/file\\xfd" or die'
const tooDeep = 'for (1 .. 30) { mkdir "d" x 200; chdir "d" x 200 or die } open F, ">file" or die'

test.each([
  ['names that are no text', nameless],
  ['more folders below one another than a path can name', tooDeep],
])('removeTree() removes a tree with %s', async (_, script) => {
  perl(script)
  await removeTree(tree)
  expect(readdirSync(base)).toEqual([])
})

test('removeTree() removes as an ordinary user what was closed to its owner, by whatever name', () => {
  perl(
    `${nameless}; mkdir "closed"; mkdir "closed/in"; chmod 0, "a\\xff/b\\xfe", "closed/in"; chmod 0500, "a\\xff", "closed"; ${tooDeep}`,
  )
  execFileSync('chmod', ['500', tree])
  asNobody(`await removeTree(${JSON.stringify(tree)})`)
  expect(readdirSync(base)).toEqual([])
})

test('removeTree() removes a link, and nothing of what it leads to', async () => {
  symlinkSync(tree, join(base, 'link'))
  writeFileSync(join(tree, 'file'), '')
  await removeTree(join(base, 'link'))
  expect(readdirSync(base)).toEqual(['tree'])
  expect(readdirSync(tree)).toEqual(['file'])
})

test('removeTree() opens nothing that a link leads to where the link itself cannot be removed', () => {
  const [kept, link] = [join(base, 'kept'), join(base, 'kept/link')]
  mkdirSync(kept)
  symlinkSync(tree, link)
  execFileSync('chmod', ['500', tree, kept])
  const said = asNobody(`await removeTree(${JSON.stringify(link)}).catch(({ message }) => console.log(message))`)
  expect(said).toContain(`Cannot remove "${link}": rm:`)
  expect(statSync(tree).mode & 0o777).toBe(0o500)
})

test('removeTree() has nothing against another that removes the same, nor against what is gone', async () => {
  perl(`for my $a (1 .. 30) { mkdir $a; for my $b (1 .. 30) { open F, ">$a/$b" } } ${tooDeep}`)
  await Promise.all([removeTree(tree), removeTree(tree), removeTree(tree)])
  expect(existsSync(tree)).toBe(false)
  await removeTree(tree)
})

test('removeTrees() goes on to the next where one cannot be removed, and says which', async () => {
  mkdirSync(join(base, 'other'))
  // No path has such a name.
  await expect(removeTrees(['/\0', tree, join(base, 'other')])).rejects.toThrow('null bytes')
  expect(readdirSync(base)).toEqual([])
})

/** Runs a script as a user for whom modes count; root passes by all of them. Who that is may not reach the sources. */
function asNobody(script: string): string {
  const asRoot = process.getuid?.() === 0
  if (asRoot) execFileSync('chown', ['-R', '65534:65534', base])
  const prelude = `const { removeTree } = await import(${JSON.stringify(import.meta.resolve('./trees.ts'))})
    if (${asRoot}) process.setgid(65534), process.setuid(65534)\n`
  return execFileSync(process.execPath, ['--input-type=module', '--eval', prelude + script], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
    cwd: '/',
  })
}
