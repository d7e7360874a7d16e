declare <16 x float> @llvm.maximum.v16f32(<16 x float>, <16 x float>)
declare i64 @llvm.umin.i64(i64, i64)
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
declare <16 x float> @llvm.masked.load.v16f32.p0(ptr, <16 x i1>, <16 x float>)
declare void @llvm.masked.store.v16f32.p0(<16 x float>, ptr, <16 x i1>)
define void @bias_relu(ptr %dims, ptr %buffers, ptr %scratch, i64 %begin, i64 %end) nounwind "prefer-vector-width"="512" "min-legal-vector-width"="512" {
entry:
  %v0 = load i64, ptr %dims, align 8
  %p1 = getelementptr i64, ptr %dims, i64 1
  %v2 = load i64, ptr %p1, align 8
  %b3 = load ptr, ptr %buffers, align 8
  %p4 = getelementptr ptr, ptr %buffers, i64 1
  %b5 = load ptr, ptr %p4, align 8
  %p6 = getelementptr ptr, ptr %buffers, i64 2
  %b7 = load ptr, ptr %p6, align 8
  %v17 = and i64 %v2, -64
  %v10 = icmp slt i64 %begin, %end
  br i1 %v10, label %run8, label %done9
run8:
  br label %grid11
grid11:
  %i13 = phi i64 [ %begin, %run8 ], [ %i77, %none15 ]
  %v22 = mul nsw i64 %i13, %v2
  %p23 = getelementptr float, ptr %b3, i64 %v22
  %p48 = getelementptr float, ptr %b7, i64 %v22
  %v16 = icmp sgt i64 %v2, 0
  br i1 %v16, label %some14, label %none15
some14:
  %v20 = icmp slt i64 0, %v17
  br i1 %v20, label %lanes18, label %lanes.end19
lanes18:
  %i21 = phi i64 [ 0, %some14 ], [ %i53, %lanes18 ]
  %p24 = getelementptr float, ptr %p23, i64 %i21
  %v25 = load <16 x float>, ptr %p24, align 4
  %p26 = getelementptr i8, ptr %p24, i64 64
  %v27 = load <16 x float>, ptr %p26, align 4
  %p28 = getelementptr i8, ptr %p24, i64 128
  %v29 = load <16 x float>, ptr %p28, align 4
  %p30 = getelementptr i8, ptr %p24, i64 192
  %v31 = load <16 x float>, ptr %p30, align 4
  %p32 = getelementptr float, ptr %b5, i64 %i21
  %v33 = load <16 x float>, ptr %p32, align 4
  %p34 = getelementptr i8, ptr %p32, i64 64
  %v35 = load <16 x float>, ptr %p34, align 4
  %p36 = getelementptr i8, ptr %p32, i64 128
  %v37 = load <16 x float>, ptr %p36, align 4
  %p38 = getelementptr i8, ptr %p32, i64 192
  %v39 = load <16 x float>, ptr %p38, align 4
  %v40 = fadd <16 x float> %v25, %v33
  %v41 = fadd <16 x float> %v27, %v35
  %v42 = fadd <16 x float> %v29, %v37
  %v43 = fadd <16 x float> %v31, %v39
  %v44 = call <16 x float> @llvm.maximum.v16f32(<16 x float> %v40, <16 x float> splat (float 0x0000000000000000))
  %v45 = call <16 x float> @llvm.maximum.v16f32(<16 x float> %v41, <16 x float> splat (float 0x0000000000000000))
  %v46 = call <16 x float> @llvm.maximum.v16f32(<16 x float> %v42, <16 x float> splat (float 0x0000000000000000))
  %v47 = call <16 x float> @llvm.maximum.v16f32(<16 x float> %v43, <16 x float> splat (float 0x0000000000000000))
  %p49 = getelementptr float, ptr %p48, i64 %i21
  store <16 x float> %v44, ptr %p49, align 4
  %p50 = getelementptr i8, ptr %p49, i64 64
  store <16 x float> %v45, ptr %p50, align 4
  %p51 = getelementptr i8, ptr %p49, i64 128
  store <16 x float> %v46, ptr %p51, align 4
  %p52 = getelementptr i8, ptr %p49, i64 192
  store <16 x float> %v47, ptr %p52, align 4
  %i53 = add nsw i64 %i21, 64
  %v54 = icmp slt i64 %i53, %v17
  br i1 %v54, label %lanes18, label %lanes.end19
lanes.end19:
  %v57 = icmp slt i64 %v17, %v2
  br i1 %v57, label %tail55, label %tail.end56
tail55:
  %i58 = phi i64 [ %v17, %lanes.end19 ], [ %i75, %tail55 ]
  %v59 = sub i64 %v2, %i58
  %v60 = call i64 @llvm.umin.i64(i64 %v59, i64 16)
  %v61 = trunc i64 %v60 to i8
  %v62 = insertelement <16 x i8> poison, i8 %v61, i64 0
  %v63 = shufflevector <16 x i8> %v62, <16 x i8> poison, <16 x i32> zeroinitializer
  %v64 = icmp ult <16 x i8> <i8 0, i8 1, i8 2, i8 3, i8 4, i8 5, i8 6, i8 7, i8 8, i8 9, i8 10, i8 11, i8 12, i8 13, i8 14, i8 15>, %v63
  %p65 = getelementptr float, ptr %p23, i64 %i58
  %p66 = getelementptr i8, ptr %p65, i64 1024
  call void @llvm.prefetch.p0(ptr %p66, i32 0, i32 3, i32 1)
  %v67 = call <16 x float> @llvm.masked.load.v16f32.p0(ptr align 4 %p65, <16 x i1> %v64, <16 x float> zeroinitializer)
  %p68 = getelementptr float, ptr %b5, i64 %i58
  %p69 = getelementptr i8, ptr %p68, i64 1024
  call void @llvm.prefetch.p0(ptr %p69, i32 0, i32 3, i32 1)
  %v70 = call <16 x float> @llvm.masked.load.v16f32.p0(ptr align 4 %p68, <16 x i1> %v64, <16 x float> zeroinitializer)
  %v71 = fadd <16 x float> %v67, %v70
  %v72 = call <16 x float> @llvm.maximum.v16f32(<16 x float> %v71, <16 x float> splat (float 0x0000000000000000))
  %p73 = getelementptr float, ptr %p48, i64 %i58
  %p74 = getelementptr i8, ptr %p73, i64 1024
  call void @llvm.prefetch.p0(ptr %p74, i32 1, i32 3, i32 1)
  call void @llvm.masked.store.v16f32.p0(<16 x float> %v72, ptr align 4 %p73, <16 x i1> %v64)
  %i75 = add nsw i64 %i58, 16
  %v76 = icmp slt i64 %i75, %v2
  br i1 %v76, label %tail55, label %tail.end56
tail.end56:
  br label %none15
none15:
  %i77 = add nsw i64 %i13, 1
  %v78 = icmp slt i64 %i77, %end
  br i1 %v78, label %grid11, label %grid.end12
grid.end12:
  br label %done9
done9:
  ret void
}
