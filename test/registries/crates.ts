import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { bytes, content, digest, fill, json, type Registry, tableRegistry, tarGz } from './registry.ts'

const [index, files, api] = ['index.crates.io', 'static.crates.io', 'crates.io'] as const

/** The sparse index (https://doc.rust-lang.org/cargo/reference/registry-index.html) with one crate, `from-crates`. The same index is made
 *  as a git repository in `repository`, for a cargo that is older than the sparse one. */
export function cratesRegistry(scratch: string, repository: string): Registry {
  const folder = join(scratch, 'crates')
  fill(folder, {
    'from-crates-1.2.3/Cargo.toml': '[package]\nname = "from-crates"\nversion = "1.2.3"\nedition = "2021"\n',
    'from-crates-1.2.3/src/lib.rs': 'pub const SAID: &str = "cargo brought this";\n',
  })
  const archive = tarGz(folder, 'from-crates-1.2.3')
  const entry = { name: 'from-crates', vers: '1.2.3', deps: [], cksum: digest('sha256', archive), features: {}, yanked: false }
  const config = { dl: `https://${files}/crates`, api: `https://${api}` }
  const line = `${JSON.stringify(entry)}\n`
  const work = join(scratch, 'crates-index')
  fill(work, { 'config.json': JSON.stringify(config), 'fr/om/from-crates': line })
  const git = (...args: string[]) => execFileSync('git', args, { cwd: work, stdio: 'ignore' })
  git('init', '-q', '-b', 'master')
  git('add', '.')
  git('-c', 'user.name=a', '-c', 'user.email=a@b', 'commit', '-qm', 'index')
  git('clone', '-q', '--bare', work, repository)
  return tableRegistry(
    [index, files, api],
    new Map([
      [`${index}/config.json`, json(config)],
      [`${index}/fr/om/from-crates`, content('text/plain', line)],
      [`${files}/crates/from-crates/1.2.3/download`, bytes(archive)],
    ]),
  )
}
