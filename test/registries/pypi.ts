import { join } from 'node:path'
import { bytes, content, digest, fill, type Registry, tableRegistry, zip } from './registry.ts'

const [index, files] = ['pypi.org', 'files.pythonhosted.org'] as const

/** The simple API (PEP 503) with one wheel, `from-pypi`. */
export function pypiRegistry(scratch: string): Registry {
  const folder = join(scratch, 'pypi')
  const info = 'from_pypi-1.2.3.dist-info'
  const names = ['from_pypi.py', `${info}/METADATA`, `${info}/WHEEL`, `${info}/RECORD`]
  fill(folder, {
    'from_pypi.py': 'said = "pip brought this"\n',
    [`${info}/METADATA`]: 'Metadata-Version: 2.1\nName: from-pypi\nVersion: 1.2.3\n',
    [`${info}/WHEEL`]: 'Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n',
    [`${info}/RECORD`]: names.map((name) => `${name},,\n`).join(''),
  })
  const wheel = 'from_pypi-1.2.3-py3-none-any.whl'
  const archive = zip(folder, names)
  const link = `<a href="https://${files}/packages/${wheel}#sha256=${digest('sha256', archive)}">${wheel}</a>`
  return tableRegistry(
    [index, files],
    new Map([
      [`${index}/simple/from-pypi/`, content('text/html', `<!DOCTYPE html><html><body>${link}</body></html>`)],
      [`${files}/packages/${wheel}`, bytes(archive)],
    ]),
  )
}
