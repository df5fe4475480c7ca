import { execFileSync, spawn } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type WorkspaceAnswer, type WorkspaceAsk, workspaceBounds } from '@anchorhold/protocol/workspace'
import { describe, expect, test } from 'vitest'
import { PassThrough, Readable } from 'node:stream'
import type { Cell, CellDriver, CellSpec } from '../cells/cell.ts'
import { bwrapDriver } from '../cells/bwrap/bwrap.ts'
import { noneDriver } from '../cells/none/none.ts'
import { trialFiles } from '../cells/trial-files.ts'
import { trialSpecs } from '../cells/trial.ts'
import { askWorkspace } from './ask-workspace.ts'

const files = trialFiles('')
const node = { source: files.node, target: '/opt/anchorhold/node' }

type Ask = <A extends WorkspaceAsk['ask']>(asked: Extract<WorkspaceAsk, { ask: A }>) => Promise<WorkspaceAnswer<A>>
/** A cell over a folder that a test fills, and what is asked of it. */
async function inCell(
  driver: CellDriver,
  fill: (folder: string, git: (...args: string[]) => void) => void,
  look: (ask: Ask, folder: string) => Promise<void>,
  covers: (folder: string) => CellSpec['covers'] = () => [],
): Promise<void> {
  await using specs = trialSpecs()
  const spec = await specs.make()
  const as = spec.runAs ?? {}
  const git = (...args: string[]) =>
    void execFileSync('git', ['-c', 'user.name=x', '-c', 'user.email=x@x', ...args], {
      cwd: spec.workspace,
      ...as,
      env: { PATH: process.env['PATH'], HOME: '/nonexistent' },
    })
  fill(spec.workspace, git)
  if (process.getuid?.() === 0) execFileSync('chown', ['-hR', `${spec.runAs?.uid ?? 0}:${spec.runAs?.gid ?? 0}`, spec.workspace])
  await using cell = await driver.start({ ...spec, mounts: [node], covers: covers(spec.workspace) }, AbortSignal.timeout(10_000))
  const place = { workspace: spec.workspace, folder: spec.home.replace(/\/home$/, ''), files }
  await look(async (asked) => (await askWorkspace(cell, place, asked)) as never, spec.workspace)
}

describe.each([bwrapDriver(), noneDriver()])('askWorkspace() in a cell of rung $rung', (driver) => {
  test('says of a file that is too large to be fetched how large one may be', async () => {
    await inCell(
      driver,
      (folder) => {
        writeFileSync(join(folder, 'large'), '')
        truncateSync(join(folder, 'large'), workspaceBounds.downloadBytes + 1)
      },
      async (ask) => {
        const refused = { code: 'too_large', message: '"large" is larger than 20 MiB' }
        await expect(ask({ ask: 'bytes', path: 'large' })).rejects.toMatchObject(refused)
      },
    )
  })

  test('lists and reads files, and tells text from what is none', async () => {
    await inCell(
      driver,
      (folder) => {
        mkdirSync(join(folder, 'src'))
        writeFileSync(join(folder, 'src/a.ts'), 'export {}\n')
        writeFileSync(join(folder, 'b.bin'), Buffer.from([1, 0, 2]))
        writeFileSync(join(folder, 'long.txt'), 'x'.repeat(workspaceBounds.textBytes + 1))
      },
      async (ask) => {
        const { entries, more } = await ask({ ask: 'list', path: '' })
        expect([entries.map(({ name, kind }) => `${kind} ${name}`), more]).toEqual([
          ['folder src', 'file b.bin', 'file long.txt'],
          false,
        ])
        expect(await ask({ ask: 'read', path: 'src/a.ts' })).toEqual({ size: 10, text: 'export {}\n', truncated: false })
        expect(await ask({ ask: 'read', path: 'b.bin' })).toMatchObject({ size: 3, text: null })
        const long = await ask({ ask: 'read', path: 'long.txt' })
        expect([long.text?.length, long.truncated]).toEqual([workspaceBounds.textBytes, true])
        expect((await ask({ ask: 'bytes', path: 'b.bin' })).base64).toBe('AQAC')
        expect((await ask({ ask: 'names' })).names).toEqual(['b.bin', 'long.txt', 'src/a.ts'])
        await expect(ask({ ask: 'read', path: 'none' })).rejects.toMatchObject({ code: 'not_found' })
        await expect(ask({ ask: 'list', path: 'b.bin' })).rejects.toMatchObject({ code: 'not_found' })
        await expect(ask({ ask: 'read', path: 'src' })).rejects.toMatchObject({ code: 'bad_request' })
      },
    )
  })

  test('follows no link out of the workspace, and waits for no pipe', async () => {
    const outside = mkdtempSync(join(tmpdir(), 'anchorhold-outside-'))
    chmodSync(outside, 0o777)
    writeFileSync(join(outside, 'secret'), 'secret')
    try {
      await inCell(
        driver,
        (folder) => {
          writeFileSync(join(folder, 'own'), 'own')
          symlinkSync('/etc/passwd', join(folder, 'passwd'))
          symlinkSync('/etc', join(folder, 'etc'))
          symlinkSync(join(outside, 'secret'), join(folder, 'secret'))
          symlinkSync(outside, join(folder, 'uploads'))
          symlinkSync('own', join(folder, 'fine'))
          execFileSync('mkfifo', [join(folder, 'pipe')])
        },
        async (ask) => {
          for (const path of ['passwd', 'etc/passwd'])
            for (const how of ['read', 'bytes'] as const)
              await expect(ask({ ask: how, path })).rejects.toMatchObject({ message: `"${path}" leads out of the workspace` })
          await expect(ask({ ask: 'read', path: 'secret' })).rejects.toThrow(/leads out|There is no file/)
          await expect(ask({ ask: 'list', path: 'etc' })).rejects.toThrow('leads out of the workspace')
          await expect(ask({ ask: 'read', path: 'pipe' })).rejects.toThrow('is no file')
          await expect(ask({ ask: 'put', name: 'x', base64: 'eA==' })).rejects.toThrow(/leads out|There is no folder/)
          expect((await ask({ ask: 'read', path: 'fine' })).text).toBe('own')
          expect((await ask({ ask: 'list', path: '' })).entries).toContainEqual(
            expect.objectContaining({ name: 'etc', kind: 'link' }),
          )
        },
      )
      expect(() => readFileSync(join(outside, 'x'))).toThrow()
    } finally {
      rmSync(outside, { recursive: true })
    }
  })

  test('puts a file where there is none, and replaces nothing', async () => {
    await inCell(
      driver,
      () => {},
      async (ask, folder) => {
        const put = async (text: string) =>
          (await ask({ ask: 'put', name: 'a.txt', base64: Buffer.from(text).toString('base64') })).path
        expect([await put('one'), await put('two')]).toEqual(['uploads/a.txt', 'uploads/a-2.txt'])
        expect(readFileSync(join(folder, 'uploads/a.txt'), 'utf8')).toBe('one')
      },
    )
  })

  test('tells what differs from the last commit: changed, removed, renamed, new and binary files', async () => {
    await inCell(
      driver,
      (folder, git) => {
        writeFileSync(join(folder, 'kept.txt'), 'one\ntwo\nthree\n')
        writeFileSync(join(folder, 'gone.txt'), 'gone\n')
        writeFileSync(join(folder, 'old name.txt'), 'a\nb\nc\nd\ne\n')
        writeFileSync(join(folder, 'picture'), Buffer.from([0, 1]))
        if (process.getuid?.() === 0) execFileSync('chmod', ['-R', 'a+rwX', folder])
        git('init', '-q', '-b', 'main', '.')
        git('add', '-A')
        git('commit', '-q', '-m', 'First')
        git('mv', 'old name.txt', 'new name.txt')
        git('rm', '-q', 'gone.txt')
        writeFileSync(join(folder, 'kept.txt'), 'one\ndiff --git a b\nthree\n')
        writeFileSync(join(folder, 'picture'), Buffer.from([0, 2]))
        writeFileSync(join(folder, 'fresh.txt'), 'fresh\nand more\n')
        writeFileSync(join(folder, 'huge.txt'), 'long line\n'.repeat(20_000))
        // What a repository says is to be run for a diff is not.
        writeFileSync(join(folder, '.gitattributes'), '* diff=evil\n')
        git('config', 'diff.evil.textconv', 'touch owned; cat')
        git('config', 'diff.external', 'touch owned')
      },
      async (ask, folder) => {
        const found = await ask({ ask: 'changes', since: 'head' })
        if (!found.git) throw new Error(found.message)
        expect([found.branch, found.head?.subject, found.more]).toEqual(['main', 'First', false])
        const told = found.files.map(({ path, status, added, removed, binary }) => [path, status, added, removed, binary])
        expect(told).toEqual([
          ['gone.txt', 'deleted', 0, 1, false],
          ['kept.txt', 'modified', 1, 1, false],
          ['new name.txt', 'renamed', 0, 0, false],
          ['picture', 'modified', null, null, true],
          ['.gitattributes', 'untracked', 1, 0, false],
          ['fresh.txt', 'untracked', 2, 0, false],
          ['huge.txt', 'untracked', null, 0, false],
        ])
        const patchOf = (name: string) => found.files.find(({ path }) => path === name)
        expect(patchOf('kept.txt')?.patch).toBe('@@ -1,3 +1,3 @@\n one\n-two\n+diff --git a b\n three\n')
        expect(patchOf('fresh.txt')?.patch).toBe('@@ -0,0 +1,2 @@\n+fresh\n+and more\n')
        expect(patchOf('new name.txt')?.from).toBe('old name.txt')
        expect(patchOf('huge.txt')).toMatchObject({ truncated: true })
        expect(() => readFileSync(join(folder, 'owned'))).toThrow()
      },
    )
  })

  test('shows each change under its own file, also behind one that became a link or has lines that look like a patch', async () => {
    const forged = ['\r', '\u2028', '\u2029'].map((end) => `x${end}diff --git a/a b/a${end}@@ -1 +1 @@${end}+harmless\n`).join('')
    await inCell(
      driver,
      (folder, git) => {
        for (const name of ['forged', 'link', 'picture', 'zeal']) writeFileSync(join(folder, name), `${name}\n`)
        writeFileSync(join(folder, 'picture'), Buffer.from([0, 1]))
        if (process.getuid?.() === 0) execFileSync('chmod', ['-R', 'a+rwX', folder])
        git('init', '-q', '-b', 'main', '.')
        git('add', '-A')
        git('commit', '-q', '-m', 'First')
        writeFileSync(join(folder, 'forged'), forged)
        for (const name of ['link', 'picture']) {
          rmSync(join(folder, name))
          symlinkSync('zeal', join(folder, name))
        }
        writeFileSync(join(folder, 'zeal'), 'more\n')
      },
      async (ask) => {
        const found = await ask({ ask: 'changes', since: 'head' })
        if (!found.git) throw new Error(found.message)
        const added = forged
          .trimEnd()
          .split('\n')
          .map((line) => `+${line}\n`)
        expect(found.files.map(({ path, patch }) => [path, patch])).toEqual([
          ['forged', `@@ -1 +1,3 @@\n-forged\n${added.join('')}`],
          ['link', '@@ -1 +0,0 @@\n-link\n@@ -0,0 +1 @@\n+zeal\n\\ No newline at end of file\n'],
          ['picture', null],
          ['zeal', '@@ -1 +1 @@\n-zeal\n+more\n'],
        ])
      },
    )
  })

  test('shows a submodule as any other file, however the repository would have it told', async () => {
    await inCell(
      driver,
      (folder, git) => {
        if (process.getuid?.() === 0) execFileSync('chmod', ['-R', 'a+rwX', folder])
        git('init', '-q', '-b', 'main', '.')
        git('config', 'diff.submodule', 'log')
        writeFileSync(join(folder, 'zeal'), 'zeal\n')
        git('add', '-A')
        git('commit', '-q', '-m', 'First')
        git('update-index', '--add', '--cacheinfo', `160000,${'1'.repeat(40)},inner`)
        git('commit', '-q', '-m', 'Second')
        git('update-index', '--cacheinfo', `160000,${'2'.repeat(40)},inner`)
        mkdirSync(join(folder, 'inner'))
        writeFileSync(join(folder, 'zeal'), 'more\n')
      },
      async (ask) => {
        const found = await ask({ ask: 'changes', since: 'head' })
        if (!found.git) throw new Error(found.message)
        expect(found.files.map(({ path, patch }) => [path, patch?.split('\n')[1]])).toEqual([
          ['inner', `-Subproject commit ${'1'.repeat(40)}`],
          ['zeal', '-zeal'],
        ])
      },
    )
  })

  test('tells what is checked out, and what differs from an earlier commit or from nothing', async () => {
    await inCell(
      driver,
      (folder, git) => {
        if (process.getuid?.() === 0) execFileSync('chmod', ['-R', 'a+rwX', folder])
        git('init', '-q', '-b', 'main', '.')
        for (const name of ['one', 'two']) {
          writeFileSync(join(folder, name), `${name}\n`)
          git('add', '-A')
          git('commit', '-q', '-m', `Add ${name}`)
        }
        git('checkout', '-q', '-b', 'topic')
        writeFileSync(join(folder, 'three'), 'three\n')
      },
      async (ask, folder) => {
        const hashOf = (name: string) =>
          execFileSync('git', ['-c', 'safe.directory=*', 'rev-parse', name], { cwd: folder, encoding: 'utf8' }).trim()
        expect(await ask({ ask: 'checked_out' })).toEqual({ branch: 'topic', commit: hashOf('HEAD') })
        const since = async (at: string) => {
          const found = await ask({ ask: 'changes', since: at })
          if (!found.git) throw new Error(found.message)
          return [found.head?.subject ?? null, ...found.files.map(({ path, status }) => `${status} ${path}`)]
        }
        expect(await since('head')).toEqual(['Add two', 'untracked three'])
        expect(await since(hashOf('HEAD~1'))).toEqual(['Add one', 'added two', 'untracked three'])
        expect(await since('none')).toEqual([null, 'added one', 'added two', 'untracked three'])
        expect(await ask({ ask: 'changes', since: 'f'.repeat(40) })).toMatchObject({ git: false, why: 'unreadable' })
      },
    )
  })

  test('takes no name for an option, a pattern or a command', async () => {
    const names = [
      '$(touch canary)',
      '`touch canary`',
      '; touch canary',
      '--output=canary',
      '-rf',
      ':(exclude)*',
      'a\nb',
      '*',
      '|touch canary',
    ]
    await inCell(
      driver,
      (folder, git) => {
        git('init', '-q', '-b', 'main', '.')
        for (const name of names) writeFileSync(join(folder, name), 'one\n')
        git('add', '-A')
        git('commit', '-q', '-m', '$(touch canary)')
        git('symbolic-ref', 'HEAD', 'refs/heads/--output=canary')
        git('update-ref', 'HEAD', 'main')
        for (const name of names) writeFileSync(join(folder, name), 'two\n')
        for (const name of names) writeFileSync(join(folder, `${name}.new`), 'two\n')
      },
      async (ask) => {
        expect(await ask({ ask: 'checked_out' })).toMatchObject({ branch: '--output=canary' })
        const found = await ask({ ask: 'changes', since: 'head' })
        if (!found.git) throw new Error(found.message)
        expect(found.head?.subject).toBe('$(touch canary)')
        expect(found.files.map(({ path }) => path).toSorted()).toEqual(names.flatMap((name) => [name, `${name}.new`]).toSorted())
        for (const name of names) expect(await ask({ ask: 'read', path: name })).toMatchObject({ text: 'two\n' })
      },
    )
  })

  test('says so where there is no repository, and holds one without a commit against nothing', async () => {
    await inCell(
      driver,
      () => {},
      async (ask) => expect(await ask({ ask: 'changes', since: 'head' })).toMatchObject({ git: false, why: 'no_repository' }),
    )
    await inCell(
      driver,
      (folder, git) => {
        git('init', '-q', '-b', 'main', '.')
        writeFileSync(join(folder, 'a'), 'a\n')
      },
      async (ask) =>
        expect(await ask({ ask: 'changes', since: 'head' })).toMatchObject({
          git: true,
          head: null,
          files: [{ path: 'a', status: 'untracked' }],
        }),
    )
  })
})

test('askWorkspace() sees of a hidden file what covers it', async () => {
  await inCell(
    bwrapDriver(),
    (folder) => writeFileSync(join(folder, '.env'), 'KEY=1'),
    async (ask) => expect(await ask({ ask: 'read', path: '.env' })).toMatchObject({ text: '' }),
    (folder) => {
      const by = join(folder, '../empty')
      writeFileSync(by, '', { mode: 0o644 })
      return [{ path: join(folder, '.env'), by }]
    },
  )
})

/** What something in the cell says in the place of our program. */
const sayingCell = (text: string): Cell => {
  const cell: Pick<Cell, 'place' | 'spawn' | 'limits'> = {
    place: (path) => path,
    limits: [],
    spawn: () => {
      const stdout = Readable.from([Buffer.from(text)])
      return { stdin: new PassThrough(), stdout, stderr: Readable.from([]), exited: Promise.resolve(0), kill() {} } as never
    },
  }
  return cell as Cell
}
// A schema that lists what is wrong with each of so many values takes more memory than there is.
test.each([
  ['millions of names', `{"answer":{"names":[${'1,'.repeat(10_000_000)}1],"more":false}}`],
  ['what is nested deeply', `{"answer":${'['.repeat(10_000_000)}${']'.repeat(10_000_000)}}`],
])('askWorkspace() refuses an answer of %s', async (_, text) => {
  const place = { workspace: '/w', folder: '/f', files }
  await expect(askWorkspace(sayingCell(text), place, { ask: 'names' })).rejects.toMatchObject({ code: 'too_large' })
})

test('askWorkspace() lists the folder that it has looked at, whatever its name leads to by then', async () => {
  // A process without a wall, so that there is something outside to be led to.
  await inCell(
    noneDriver(),
    (folder) => {
      const outside = join(folder, '../home/outside')
      for (const [path, text] of [
        [join(folder, 'sub'), '1'],
        [outside, 'canary'],
      ] as const) {
        mkdirSync(path)
        for (let at = 0; at < 1500; at++) writeFileSync(join(path, `file-${at}`), text)
      }
      symlinkSync(outside, join(folder, 'link'))
    },
    async (ask, folder) => {
      const flip = `chdir $ARGV[0] or die; $| = 1; print "ready\\n";
        while (1) { rename "sub", "own"; rename "link", "sub"; rename "sub", "link"; rename "own", "sub" }`
      const flipper = spawn('perl', ['-e', flip, folder], { stdio: ['ignore', 'pipe', 'inherit'] })
      await new Promise((resolve) => flipper.stdout.once('data', resolve))
      let listed = 0
      try {
        for (let round = 0; round < 10; round++) {
          const answer = await ask({ ask: 'list', path: 'sub' }).catch(() => null)
          listed += answer?.entries.length ?? 0
          expect(new Set(answer?.entries.map(({ size }) => size) ?? [1])).toEqual(new Set([1]))
        }
      } finally {
        flipper.kill('SIGKILL')
      }
      expect(listed).toBeGreaterThan(0)
    },
  )
})
