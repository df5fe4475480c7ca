import { expect, test } from 'vitest'
import { cleanGitConfig, isGitConfig } from './git-config.ts'

test('isGitConfig() knows the settings of a repository, of its submodules and of its worktrees', () => {
  const yes = [
    '.git/config',
    'sub/.git/config',
    '.git/modules/lib/config',
    '.git/modules/a/modules/b/config',
    '.git/worktrees/w/config.worktree',
  ]
  expect(yes.filter((path) => !isGitConfig(path))).toEqual([])
  expect(['.git/hooks/config', 'git/config', '.git/refs/heads/config', '.gitconfig'].filter(isGitConfig)).toEqual([])
})

test('cleanGitConfig() has nothing to do for what git itself writes', () => {
  expect(
    cleanGitConfig(
      '[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n[remote "origin"]\n\turl = https://example.org/a.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch "main"]\n\tremote = origin\n\tmerge = refs/heads/main\n',
    ),
  ).toBeNull()
})

test.each([
  ['a token in an address', '[remote "origin"]\n\turl = https://me:ghp_hunter2@example.org/a.git\n', 'https://example.org/a.git'],
  ['a token as the name', '[remote "origin"]\n\turl = https://ghp_hunter2@example.org/a.git\n', 'https://example.org/a.git'],
  ['a token in a query', '[remote "origin"]\n\turl = https://example.org/a.git?token=hunter2\n', 'https://example.org/a.git'],
  ['a header', '[http "https://example.org/"]\n\textraheader = AUTHORIZATION: basic hunter2\n', ''],
  ['a helper', '[credential]\n\thelper = "!echo password=hunter2"\n', ''],
  ['an address in a section', '[url "https://x:hunter2@example.org/"]\n\tinsteadOf = gh:\n', ''],
  ['a comment', '# password hunter2\n[core]\n\tbare = false\n', 'bare'],
  ['a value over two lines', '[core]\n\tsshCommand = ssh -i \\\n hunter2\n', ''],
  ['a section with its setting in one line', '[http] extraheader = hunter2\n', ''],
  ['what is no setting at all', 'hunter2\n', ''],
])('cleanGitConfig() leaves out %s', (_, text, kept) => {
  const clean = cleanGitConfig(text)
  expect(clean).not.toBeNull()
  expect(clean).not.toContain('hunter2')
  expect(clean).toContain(kept)
})

test('cleanGitConfig() leaves out what git would run', () => {
  const clean = cleanGitConfig(
    '[core]\n\tfsmonitor = touch /tmp/x\n\thooksPath = /evil\n\teditor = evil\n\tbare = false\n[filter "x"]\n\tclean = evil\n[include]\n\tpath = evil\n[alias]\n\tst = !evil\n',
  )
  expect(clean).not.toMatch(/evil|touch/)
  expect(clean).toContain('bare')
})
