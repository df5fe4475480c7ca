// Not one of the attacks that `anchorhold prove` carries out: it is the daemon that is attacked, by what lies in a workspace.
import { execFileSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { giveTo } from '../e2e/host.ts'
import { type Installation, installation, isRoot, outputsOf, someone } from '../e2e/installation.ts'
import { attackedRungs } from './attacked-rungs.ts'

/** What a trap leaves when a git of the host's springs it. No cell can see this folder. */
const marks = mkdtempSync(join(tmpdir(), 'ah-planted-'))
chmodSync(marks, 0o777)
const mark = (name: string) => `#!/bin/sh\necho sprung > ${join(marks, name)}\n`
const sprung = (name: string) => existsSync(join(marks, name))

/** Many cells one after the other. */
const lifeMs = 4 * 60_000

let it: Installation
beforeAll(async () => {
  it = await installation()
})
afterAll(async () => {
  await it[Symbol.asyncDispose]()
  rmSync(marks, { recursive: true })
})

/** A repository that runs its own programs whenever a git is asked anything about it, by every way that there is to plant one. */
function plant(folder: string): void {
  const git = (...args: readonly string[]) =>
    execFileSync('git', ['-c', 'safe.directory=*', '-c', 'user.name=x', '-c', 'user.email=x@x', ...args], {
      cwd: folder,
      stdio: 'ignore',
    })
  git('init', '-q')
  writeFileSync(join(folder, 'file.txt'), 'hello')
  writeFileSync(join(folder, '.gitattributes'), '* filter=evil\n')
  git('add', '.')
  git('commit', '-qm', 'first')
  const script = (name: string) => {
    const path = join(folder, `.git/${name}.sh`)
    writeFileSync(path, mark(name), { mode: 0o755 })
    return path
  }
  for (const hook of ['post-checkout', 'pre-commit', 'post-index-change', 'post-merge', 'reference-transaction', 'pre-auto-gc'])
    writeFileSync(join(folder, '.git/hooks', hook), mark('hook'), { mode: 0o755 })
  git('config', 'core.fsmonitor', script('fsmonitor'))
  git('config', 'core.sshCommand', script('ssh'))
  git('config', 'core.pager', script('pager'))
  git('config', 'diff.external', script('diff'))
  git('config', 'filter.evil.clean', script('clean'))
  git('config', 'filter.evil.smudge', script('smudge'))
  git('config', 'alias.status', `!${script('alias')}`)
  // From git 2.43 on attributes are taken from there as well, where a folder has none.
  git('config', 'attr.tree', 'HEAD')
  // Settings of this worktree alone go before those of the repository.
  git('config', 'extensions.worktreeConfig', 'true')
  writeFileSync(join(folder, '.git/config.worktree'), `[core]\n\tfsmonitor = ${script('worktree')}\n`)
  writeFileSync(
    join(folder, '.gitmodules'),
    `[submodule "x"]\n\tpath = x\n\turl = ext::sh -c ${script('submodule')}\n\tupdate = !${script('update')}\n`,
  )
  // A folder that looks like a repository by itself, for a git that is started below the top.
  mkdirSync(join(folder, 'bare/objects'), { recursive: true })
  mkdirSync(join(folder, 'bare/refs'))
  writeFileSync(join(folder, 'bare/HEAD'), 'ref: refs/heads/main\n')
  writeFileSync(
    join(folder, 'bare/config'),
    `[core]\n\trepositoryformatversion = 0\n\tbare = true\n\tfsmonitor = ${script('bare')}\n`,
  )
  if (isRoot) giveTo(folder, someone)
}

const names = ['hook', 'fsmonitor', 'worktree', 'ssh', 'pager', 'diff', 'clean', 'smudge', 'alias', 'submodule', 'update', 'bare']

test.each(attackedRungs)(
  'no hook, filter, monitor or submodule of a workspace is run by the host in the whole life of a session on the rung %s',
  async (rung) => {
    for (const name of names) rmSync(join(marks, name), { force: true })
    const workspace = it.workspace()
    plant(workspace)
    // The way there is no matter: created with a prompt, forked, copied, searched, shown, archived and purged.
    const { session, events } = await it.run('run `git status --short; git log --oneline; git diff; ls -A bare`', {
      workspace,
      rung,
    })
    expect(outputsOf(events)).toContain('HEAD')
    const fork = await it.api.fork({ params: { id: session.id }, body: {} })
    const forked = await it.turn(
      fork.id,
      'run `git checkout -q -b other && git commit -q --allow-empty -m second; git submodule update --init; echo did`',
    )
    expect(outputsOf(forked)).toContain('did')
    const copied = await it.run('say it is copied', { workspace, rung, workspace_access: 'copy' })
    // The way through a rung that nobody was on proves nothing.
    expect([session.rung, fork.rung, copied.session.rung]).toEqual([rung, rung, rung])
    for (const args of [['show', 'last'], ['ls'], ['doctor'], ['search', 'status']])
      expect((await it.cli(args)).code, args.join(' ')).toBe(0)
    for (const { id } of [session, fork, copied.session]) {
      await it.api.archive({ params: { id } })
      await it.api.purgeSession({ params: { id }, body: { confirm: id } })
    }
    expect(names.filter(sprung)).toEqual([])

    // The traps do work: a git of the host's that is asked without care springs them.
    execFileSync('git', ['-c', 'safe.directory=*', 'diff'], { cwd: workspace, stdio: 'ignore' })
    expect(names.filter(sprung)).toContain('worktree')
  },
  lifeMs,
)
