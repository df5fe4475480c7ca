import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { bytes, content, digest, fill, type Registry, tableRegistry } from './registry.ts'

const host = 'deb.debian.org'

/** An archive with one package, `from-debian`. It is not signed: who uses it says so. */
export function debianRegistry(scratch: string): Registry {
  const folder = join(scratch, 'debian')
  fill(folder, {
    'from-debian/DEBIAN/control':
      'Package: from-debian\nVersion: 1.2.3\nArchitecture: all\nMaintainer: tests <a@b.org>\nDescription: apt brought this\n',
    'from-debian/usr/share/from-debian/said': 'apt brought this\n',
  })
  execFileSync('dpkg-deb', ['--root-owner-group', '-b', 'from-debian', 'from-debian.deb'], { cwd: folder, stdio: 'ignore' })
  const deb = readFileSync(join(folder, 'from-debian.deb'))
  const pool = 'pool/main/f/from-debian_1.2.3_all.deb'
  const control = readFileSync(join(folder, 'from-debian/DEBIAN/control'), 'utf8')
  const packages = Buffer.from(`${control}Filename: ${pool}\nSize: ${deb.length}\nSHA256: ${digest('sha256', deb)}\n`)
  const arch = execFileSync('dpkg', ['--print-architecture'], { encoding: 'utf8' }).trim()
  const listed = `main/binary-${arch}/Packages`
  const release = [
    'Origin: tests',
    'Suite: stable',
    'Codename: stable',
    'Date: Thu, 01 Jan 2026 00:00:00 UTC',
    `Architectures: ${arch} all`,
    'Components: main',
    'SHA256:',
    ` ${digest('sha256', packages)} ${packages.length} ${listed}`,
    '',
  ].join('\n')
  return tableRegistry(
    [host],
    new Map([
      [`${host}/debian/dists/stable/Release`, content('text/plain', release)],
      [`${host}/debian/dists/stable/${listed}`, bytes(packages)],
      [`${host}/debian/${pool}`, bytes(deb)],
    ]),
  )
}

/** What apt is told so that it keeps everything in a folder of the caller's, and takes packages from the archive above. */
export const aptInFolder = (folder: string): string => {
  const dirs = {
    'Dir::State': 'state',
    'Dir::Cache': 'cache',
    'Dir::Etc::sourcelist': 'sources.list',
    'Dir::Etc::sourceparts': '-',
  }
  const options = Object.entries(dirs).map(([name, value]) => `-o ${name}=${value === '-' ? '-' : `${folder}/${value}`}`)
  return `mkdir -p ${folder}/state/lists/partial ${folder}/cache/archives/partial && echo 'deb [trusted=yes] https://${host}/debian stable main' > ${folder}/sources.list && touch ${folder}/status && APT="apt-get -qq ${options.join(' ')} -o Dir::State::status=${folder}/status -o APT::Sandbox::User="`
}
