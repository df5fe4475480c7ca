import { join } from 'node:path'
import { bytes, digest, fill, json, type Registry, tableRegistry, tarGz } from './registry.ts'

const host = 'registry.npmjs.org'

/** A registry with one package, `from-npm`, that says where it came from. See
 *  https://github.com/npm/registry/blob/main/docs/responses/package-metadata.md */
export function npmRegistry(scratch: string): Registry {
  const folder = join(scratch, 'npm')
  const manifest = { name: 'from-npm', version: '1.2.3', main: 'index.js' }
  fill(folder, {
    'package/package.json': JSON.stringify(manifest),
    'package/index.js': 'module.exports = "npm brought this"\n',
  })
  const archive = tarGz(folder, 'package')
  const tarball = `https://${host}/from-npm/-/from-npm-1.2.3.tgz`
  const dist = { tarball, shasum: digest('sha1', archive), integrity: `sha512-${digest('sha512', archive, 'base64')}` }
  const packument = { name: 'from-npm', 'dist-tags': { latest: '1.2.3' }, versions: { '1.2.3': { ...manifest, dist } } }
  return tableRegistry(
    [host],
    new Map([
      [`${host}/from-npm`, json(packument)],
      [`${host}/from-npm/-/from-npm-1.2.3.tgz`, bytes(archive)],
    ]),
  )
}
