#b1 = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#b2 = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#b2t = #ttg.blocked<{sizePerThread = [4, 1], threadsPerWarp = [8, 4], warpsPerCTA = [1, 4], order = [0, 1]}>
#b3 = #ttg.blocked<{sizePerThread = [1, 4, 2], threadsPerWarp = [4, 8, 1], warpsPerCTA = [4, 1, 1], order = [2, 1, 0]}>
#w8 = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [8], order = [0]}>
#l16 = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>
#c2 = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0], CGALayout = [[1]]}>
#mma = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 8]}>
#mma3 = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 16]}>
#a0 = #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>
#a1 = #ttg.dot_op<{opIdx = 1, parent = #mma, kWidth = 2}>
#a1w = #ttg.dot_op<{opIdx = 1, parent = #mma, kWidth = 4}>
#gen = #ttg.generic_linear<{register = [], lane = [[1], [2], [4], [8], [16]], warp = [[32], [64]], block = []}>
#s1 = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#s2 = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>
#s2t = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0, 1]}>
#s2z = #ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>
#n = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#nt = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = true, elementBitWidth = 16}>
#t = #ttng.tensor_memory_encoding<blockM = 128, blockN = 64, colStride = 1>
#smem = #ttg.shared_memory
#tmem = #ttng.tensor_memory
module attributes {@ATTRS@, "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32} {
  tt.func @f(%v: tensor<128xf32, #b1>, %m: tensor<128x64xf16, #b2>, %row: tensor<64xf16, #ttg.slice<{dim = 0, parent = #b2}>>, %col: tensor<128xf16, #ttg.slice<{dim = 1, parent = #b2}>>, %p: tensor<128x64x2xf16, #b3>, %half: tensor<128x64xf16, #ttg.slice<{dim = 2, parent = #b3}>>, %a: tensor<64x32xf16, #a0>, %b: tensor<32x64xf16, #a1>, %bw: tensor<32x64xf16, #a1w>, %c: tensor<64x64xf32, #mma>, %sh: !ttg.memdesc<128x64xf16, #s2, #smem, mutable>, %shi: !ttg.memdesc<128x64xf16, #s2, #smem>, %sz: !ttg.memdesc<128x64xf16, #s2z, #smem, mutable>, %sb: !ttg.memdesc<3x128x64xf16, #s2, #smem, mutable>, %s: !ttg.memdesc<128xf32, #s1, #smem, mutable>, %nm: !ttg.memdesc<128x64xf16, #n, #smem, mutable>, %tm: !ttg.memdesc<128x64xf32, #t, #tmem, mutable>, %bar: !ttg.memdesc<1xi64, #s1, #smem, mutable>, %ix: tensor<128xi32, #b1>, %i: i32, %k: i1, %desc: !tt.tensordesc<128x64xf16, #n>) {
    @BODY@
    tt.return
  }
}
