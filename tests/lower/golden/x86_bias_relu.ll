declare <16 x float> @llvm.maximum.v16f32(<16 x float>, <16 x float>)
!0 = !{i32 1}
declare i64 @llvm.umin.i64(i64, i64)
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
declare <16 x float> @llvm.masked.load.v16f32.p0(ptr, <16 x i1>, <16 x float>)
declare void @llvm.masked.store.v16f32.p0(<16 x float>, ptr, <16 x i1>)
declare void @llvm.x86.sse.sfence()
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
  %v8 = mul nsw i64 %v0, 4
  %v9 = mul nsw i64 %v2, %v8
  %v10 = icmp sge i64 %v9, 16777216
  %v20 = and i64 %v2, -64
  %v13 = icmp slt i64 %begin, %end
  br i1 %v13, label %run11, label %done12
run11:
  br label %grid14
grid14:
  %i16 = phi i64 [ %begin, %run11 ], [ %i90, %none18 ]
  %v25 = mul nsw i64 %i16, %v2
  %p26 = getelementptr float, ptr %b3, i64 %v25
  %p51 = getelementptr float, ptr %b7, i64 %v25
  %v53 = ptrtoint ptr %p51 to i64
  %v54 = and i64 %v53, 63
  %v55 = icmp eq i64 %v54, 0
  %v56 = and i1 %v55, %v10
  %v19 = icmp sgt i64 %v2, 0
  br i1 %v19, label %some17, label %none18
some17:
  %v23 = icmp slt i64 0, %v20
  br i1 %v23, label %lanes21, label %lanes.end22
lanes21:
  %i24 = phi i64 [ 0, %some17 ], [ %i66, %stored59 ]
  %p27 = getelementptr float, ptr %p26, i64 %i24
  %v28 = load <16 x float>, ptr %p27, align 4
  %p29 = getelementptr i8, ptr %p27, i64 64
  %v30 = load <16 x float>, ptr %p29, align 4
  %p31 = getelementptr i8, ptr %p27, i64 128
  %v32 = load <16 x float>, ptr %p31, align 4
  %p33 = getelementptr i8, ptr %p27, i64 192
  %v34 = load <16 x float>, ptr %p33, align 4
  %p35 = getelementptr float, ptr %b5, i64 %i24
  %v36 = load <16 x float>, ptr %p35, align 4
  %p37 = getelementptr i8, ptr %p35, i64 64
  %v38 = load <16 x float>, ptr %p37, align 4
  %p39 = getelementptr i8, ptr %p35, i64 128
  %v40 = load <16 x float>, ptr %p39, align 4
  %p41 = getelementptr i8, ptr %p35, i64 192
  %v42 = load <16 x float>, ptr %p41, align 4
  %v43 = fadd <16 x float> %v28, %v36
  %v44 = fadd <16 x float> %v30, %v38
  %v45 = fadd <16 x float> %v32, %v40
  %v46 = fadd <16 x float> %v34, %v42
  %v47 = call <16 x float> @llvm.maximum.v16f32(<16 x float> %v43, <16 x float> splat (float 0x0000000000000000))
  %v48 = call <16 x float> @llvm.maximum.v16f32(<16 x float> %v44, <16 x float> splat (float 0x0000000000000000))
  %v49 = call <16 x float> @llvm.maximum.v16f32(<16 x float> %v45, <16 x float> splat (float 0x0000000000000000))
  %v50 = call <16 x float> @llvm.maximum.v16f32(<16 x float> %v46, <16 x float> splat (float 0x0000000000000000))
  %p52 = getelementptr float, ptr %p51, i64 %i24
  br i1 %v56, label %past57, label %through58
past57:
  store <16 x float> %v47, ptr %p52, align 64, !nontemporal !0
  %p60 = getelementptr i8, ptr %p52, i64 64
  store <16 x float> %v48, ptr %p60, align 64, !nontemporal !0
  %p61 = getelementptr i8, ptr %p52, i64 128
  store <16 x float> %v49, ptr %p61, align 64, !nontemporal !0
  %p62 = getelementptr i8, ptr %p52, i64 192
  store <16 x float> %v50, ptr %p62, align 64, !nontemporal !0
  br label %stored59
through58:
  store <16 x float> %v47, ptr %p52, align 4
  %p63 = getelementptr i8, ptr %p52, i64 64
  store <16 x float> %v48, ptr %p63, align 4
  %p64 = getelementptr i8, ptr %p52, i64 128
  store <16 x float> %v49, ptr %p64, align 4
  %p65 = getelementptr i8, ptr %p52, i64 192
  store <16 x float> %v50, ptr %p65, align 4
  br label %stored59
stored59:
  %i66 = add nsw i64 %i24, 64
  %v67 = icmp slt i64 %i66, %v20
  br i1 %v67, label %lanes21, label %lanes.end22
lanes.end22:
  %v70 = icmp slt i64 %v20, %v2
  br i1 %v70, label %tail68, label %tail.end69
tail68:
  %i71 = phi i64 [ %v20, %lanes.end22 ], [ %i88, %tail68 ]
  %v72 = sub i64 %v2, %i71
  %v73 = call i64 @llvm.umin.i64(i64 %v72, i64 16)
  %v74 = trunc i64 %v73 to i8
  %v75 = insertelement <16 x i8> poison, i8 %v74, i64 0
  %v76 = shufflevector <16 x i8> %v75, <16 x i8> poison, <16 x i32> zeroinitializer
  %v77 = icmp ult <16 x i8> <i8 0, i8 1, i8 2, i8 3, i8 4, i8 5, i8 6, i8 7, i8 8, i8 9, i8 10, i8 11, i8 12, i8 13, i8 14, i8 15>, %v76
  %p78 = getelementptr float, ptr %p26, i64 %i71
  %p79 = getelementptr i8, ptr %p78, i64 1024
  call void @llvm.prefetch.p0(ptr %p79, i32 0, i32 3, i32 1)
  %v80 = call <16 x float> @llvm.masked.load.v16f32.p0(ptr align 4 %p78, <16 x i1> %v77, <16 x float> zeroinitializer)
  %p81 = getelementptr float, ptr %b5, i64 %i71
  %p82 = getelementptr i8, ptr %p81, i64 1024
  call void @llvm.prefetch.p0(ptr %p82, i32 0, i32 3, i32 1)
  %v83 = call <16 x float> @llvm.masked.load.v16f32.p0(ptr align 4 %p81, <16 x i1> %v77, <16 x float> zeroinitializer)
  %v84 = fadd <16 x float> %v80, %v83
  %v85 = call <16 x float> @llvm.maximum.v16f32(<16 x float> %v84, <16 x float> splat (float 0x0000000000000000))
  %p86 = getelementptr float, ptr %p51, i64 %i71
  %p87 = getelementptr i8, ptr %p86, i64 1024
  call void @llvm.prefetch.p0(ptr %p87, i32 1, i32 3, i32 1)
  call void @llvm.masked.store.v16f32.p0(<16 x float> %v85, ptr align 4 %p86, <16 x i1> %v77)
  %i88 = add nsw i64 %i71, 16
  %v89 = icmp slt i64 %i88, %v2
  br i1 %v89, label %tail68, label %tail.end69
tail.end69:
  br label %none18
none18:
  %i90 = add nsw i64 %i16, 1
  %v91 = icmp slt i64 %i90, %end
  br i1 %v91, label %grid14, label %grid.end15
grid.end15:
  br label %done12
done12:
  br i1 %v10, label %fence92, label %fenced93
fence92:
  call void @llvm.x86.sse.sfence()
  br label %fenced93
fenced93:
  ret void
}
