import { join } from 'node:path'
import { bytes, type Content, content, digest, fill, type Registry, tableRegistry, zip } from './registry.ts'

const host = 'repo.maven.apache.org'

/** A repository with a parent project and an extension of the build: what Maven resolves by itself, before any plugin. */
export function mavenRegistry(scratch: string): Registry {
  const folder = join(scratch, 'maven')
  fill(folder, { 'META-INF/MANIFEST.MF': 'Manifest-Version: 1.0\n' })
  const pom = (artifact: string, packaging: string) =>
    Buffer.from(
      `<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId><artifactId>${artifact}</artifactId>` +
        `<version>1.2.3</version><packaging>${packaging}</packaging></project>\n`,
    )
  const files: readonly [string, Buffer][] = [
    ['parent/1.2.3/parent-1.2.3.pom', pom('parent', 'pom')],
    ['extension/1.2.3/extension-1.2.3.pom', pom('extension', 'jar')],
    ['extension/1.2.3/extension-1.2.3.jar', zip(folder, ['META-INF/MANIFEST.MF'])],
  ]
  const at = (name: string) => `${host}/maven2/org/example/${name}`
  const withSums = files.flatMap(([name, body]): [string, Content][] => [
    [at(name), bytes(body)],
    [at(`${name}.sha1`), content('text/plain', digest('sha1', body))],
  ])
  return tableRegistry([host], new Map(withSums))
}

/** A project that cannot be read without both. */
export const mavenProject = `<project><modelVersion>4.0.0</modelVersion>
<parent><groupId>org.example</groupId><artifactId>parent</artifactId><version>1.2.3</version><relativePath/></parent>
<artifactId>child</artifactId><packaging>pom</packaging>
<build><extensions><extension><groupId>org.example</groupId><artifactId>extension</artifactId><version>1.2.3</version></extension></extensions></build>
</project>
`
