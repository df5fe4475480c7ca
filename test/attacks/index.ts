import type { Attack } from './attack.ts'
import { covers } from './covers.ts'
import { datagrams } from './datagrams.ts'
import { descriptors } from './descriptors.ts'
import { devices } from './devices.ts'
import { disk } from './disk.ts'
import { environment } from './environment.ts'
import { firstProcess } from './first-process.ts'
import { forkBomb } from './fork-bomb.ts'
import { hostPaths } from './host-paths.ts'
import { hostProcesses } from './host-processes.ts'
import { hostSecrets } from './host-secrets.ts'
import { inodes } from './inodes.ts'
import { inotify } from './inotify.ts'
import { insideProgram } from './inside-program.ts'
import { kernelCalls } from './kernel-calls.ts'
import { kernelSettings } from './kernel-settings.ts'
import { leaveByPath } from './leave-by-path.ts'
import { memory } from './memory.ts'
import { mounts } from './mounts.ts'
import { namespaces } from './namespaces.ts'
import { network } from './network.ts'
import { openFiles } from './open-files.ts'
import { otherSessions } from './other-sessions.ts'
import { output } from './output.ts'
import { releaseAgent } from './release-agent.ts'
import { setuid } from './setuid.ts'
import { sharedCaches } from './shared-caches.ts'
import { socketFamilies } from './socket-families.ts'
import { survivors } from './survivors.ts'
import { terminal } from './terminal.ts'
import { writeOutside } from './write-outside.ts'

/** Every attack on a cell, in the order of the card. What takes a daemon or a gate to attack is in the test files beside this. */
export const attacks: readonly Attack[] = [
  ...[writeOutside, hostSecrets, hostPaths, otherSessions, sharedCaches, leaveByPath, covers],
  ...[hostProcesses, environment, descriptors, survivors, firstProcess, insideProgram],
  ...[network, datagrams, socketFamilies],
  ...[mounts, namespaces, devices, setuid, kernelSettings, releaseAgent, kernelCalls, terminal],
  ...[memory, forkBomb, disk, inodes, openFiles, inotify, output],
]
