import { defineConfig } from 'vitest/config'
import { testImages } from './test/test-images.ts'

export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: 'unit',
          setupFiles: ['test/patience.ts'],
          include: ['packages/*/src/**/*.test.ts'],
          exclude: ['**/*.machine.test.ts', '**/*.engine.test.ts'],
          testTimeout: 60_000,
          hookTimeout: 60_000,
          maxWorkers: 2,
        },
      },
      {
        test: {
          name: 'simulation',
          include: ['test/simulation/**/*.test.ts'],
          maxWorkers: 2,
        },
      },
      { test: { name: 'house', include: ['test/house/**/*.test.ts'] } },
      {
        test: {
          name: 'attacks',
          include: ['test/attacks/**/*.test.ts'],
          testTimeout: 60_000,
          hookTimeout: 120_000,
          // What they use up is their own cells', within the limits of those.
          maxWorkers: 2,
        },
      },
      {
        test: {
          name: 'e2e',
          include: ['test/e2e/**/*.test.ts'],
          exclude: ['**/*.long.test.ts'],
          testTimeout: 60_000,
          hookTimeout: 120_000,
          // Each file has an installation of its own; most of their time is waiting for processes.
          maxWorkers: 2,
        },
      },
      // They wait for people, for money, for many sessions and for package managers, or go through verbs and documents one by one: run by
      // `npm run test:long`, not by `npm test`.
      ...(process.env.LONG === undefined
        ? []
        : [
            {
              test: {
                name: 'long',
                include: ['test/e2e/**/*.long.test.ts'],
                testTimeout: 60_000,
                hookTimeout: 120_000,
                maxWorkers: 2,
              },
            },
          ]),
      // A browser takes its time: run by `npm run test:browser`, not by `npm test`.
      ...(process.env.BROWSER === undefined
        ? []
        : [
            {
              test: {
                name: 'browser',
                include: ['test/browser/**/*.test.ts'],
                testTimeout: 60_000,
                hookTimeout: 120_000,
                maxWorkers: 2,
              },
            },
          ]),
      // Their length is their point: run by `npm run test:browser:long` and `npm run test:disconnects`.
      ...(process.env.BROWSER_LONG === undefined
        ? []
        : [
            {
              test: {
                name: 'browser-long',
                include: ['test/browser/*.long.ts'],
                testTimeout: 600_000,
                hookTimeout: 120_000,
                fileParallelism: false,
              },
            },
          ]),
      // Tries every rung anew, several times: run by `npm run test:ladder`, not by `npm test`.
      ...(process.env.LADDER === undefined
        ? []
        : [
            {
              test: {
                name: 'ladder',
                include: ['test/ladder/**/*.test.ts'],
                testTimeout: 240_000,
                hookTimeout: 120_000,
                maxWorkers: 2,
              },
            },
          ]),
      // Machines under software emulation are slow: run by `npm run test:machines`, not by `npm test`.
      ...(process.env.MACHINES === undefined
        ? []
        : [
            {
              test: {
                name: 'machines',
                include: [
                  'packages/*/src/**/*.machine.test.ts',
                  'test/attacks/attacks.test.ts',
                  'test/e2e/elevated.long.test.ts',
                  'test/e2e/rungs.long.test.ts',
                ],
                env: { ANCHORHOLD_IMAGES: testImages },
                globalSetup: ['test/machine-images.ts'],
                testTimeout: 1_200_000,
                hookTimeout: 900_000,
                fileParallelism: false,
              },
            },
          ]),
      // Compilers and a Java that are installed for it: run by `npm run test:toolchains`, not by `npm test`.
      ...(process.env.TOOLCHAINS === undefined
        ? []
        : [
            {
              test: {
                name: 'toolchains',
                include: ['test/toolchains/**/*.test.ts'],
                env: { ANCHORHOLD_IMAGES: testImages },
                globalSetup: ['test/machine-images.ts'],
                testTimeout: 300_000,
                hookTimeout: 600_000,
                fileParallelism: false,
              },
            },
          ]),
      // With daemons of root's that are started for it: run by `npm run test:engines`, not by `npm test`.
      ...(process.env.ENGINES === undefined
        ? []
        : [
            {
              test: {
                name: 'engines',
                include: ['packages/*/src/**/*.engine.test.ts'],
                testTimeout: 60_000,
                hookTimeout: 120_000,
                fileParallelism: false,
              },
            },
          ]),
      // Long: run by `npm run test:chaos`, not by `npm test`.
      ...(process.env.CHAOS === undefined
        ? []
        : [{ test: { name: 'chaos', include: ['test/chaos/**/*.test.ts'], testTimeout: 2 * 3_600_000 } }]),
    ],
  },
})
