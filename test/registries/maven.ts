import { join } from 'node:path'
import { bytes, content, digest, fill, type Registry, tableRegistry, zip } from './registry.ts'

const host = 'repo.maven.apache.org'

/** A repository with one parent project, which is what Maven resolves by itself, before any plugin; and one archive, for Gradle. */
export function mavenRegistry(scratch: string): Registry {
  const pom = Buffer.from(
    '<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId><artifactId>parent</artifactId>' +
      '<version>1.2.3</version><packaging>pom</packaging></project>\n',
  )
  const libraryPom = Buffer.from(
    '<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId><artifactId>library</artifactId>' +
      '<version>1.2.3</version></project>\n',
  )
  const folder = join(scratch, 'maven')
  fill(folder, { said: 'gradle brought this' })
  const files = { 'parent/1.2.3/parent-1.2.3.pom': pom, 'library/1.2.3/library-1.2.3.pom': libraryPom }
  const archives = { 'library/1.2.3/library-1.2.3.jar': zip(folder, ['said']) }
  const all = Object.entries({ ...files, ...archives })
  return tableRegistry(
    [host],
    new Map(
      all.flatMap(([name, body]) => [
        [`${host}/maven2/org/example/${name}`, bytes(body)] as const,
        [`${host}/maven2/org/example/${name}.sha1`, content('text/plain', digest('sha1', body))] as const,
      ]),
    ),
  )
}

/** A build that shows what is in the archive. */
export const gradleBuild = `repositories { mavenCentral() }
configurations { brought }
dependencies { brought "org.example:library:1.2.3" }
task show { doLast { println zipTree(configurations.brought.singleFile).singleFile.text } }
`

/** A project that cannot be read without it. */
export const mavenProject = `<project><modelVersion>4.0.0</modelVersion>
<parent><groupId>org.example</groupId><artifactId>parent</artifactId><version>1.2.3</version><relativePath/></parent>
<artifactId>child</artifactId><packaging>pom</packaging>
</project>
`
